"""Rows get into the bucket once, whatever fails between a flush and the end of an upload."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import ObjectStore, Unavailable
from muster.actors.tables.bucket import uploads
from muster.actors.tables.bucket.uploads import Uploads, drop_beyond, finished, upload
from muster.actors.tables.store import AT_CLOSE
from tests.muster_process import eventually
from tests.object_storage.conftest import Connect, connect, proxy, service, uri
from tests.object_storage.faulty import Fault, Proxy
from tests.tables.bucket.making import DyingBackend, epochs, flushed
from tests.tables.events import HOUR_MS, NOON_MS, event, open_store
from tests.tables.killing import Killed, die, kill_at

pytestmark = [pytest.mark.ring(name="object-storage"), pytest.mark.timeout(120)]

__all__ = ["connect", "proxy", "service", "uri"]


def test_files_become_objects_of_their_names(connect: Connect, uri: str, tmp_path: Path) -> None:
    flushed(tmp_path, 1, 2)
    names = [path.relative_to(tmp_path).as_posix() for path in finished(tmp_path)]
    assert len(names) == 2
    assert asyncio.run(upload(tmp_path, ObjectStore(connect()))) == 2
    assert not [*finished(tmp_path)]
    assert epochs(uri) == [1, 2]

    async def listed() -> list[str]:
        return [each.name async for each in connect().list("metrics/")]

    assert asyncio.run(listed()) == [f"metrics/{name}" for name in names]


def test_a_kill_between_any_two_steps(connect: Connect, uri: str, tmp_path: Path) -> None:
    """The steps are those of a flush, an upload, and the removal of file and spool; a successor does the rest."""
    for step in range(100):
        metrics = tmp_path / str(step) / "metrics"
        metrics.mkdir(parents=True)
        first, killed = open_store(metrics), False
        store = ObjectStore(DyingBackend(connect()))
        expected = [2 * step, 2 * step + 1]
        for number in expected:
            first.add(event(number, ts_ms=NOON_MS + (number % 2) * HOUR_MS))
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, step)
            try:
                first.flush()
                asyncio.run(upload(metrics, store))
            except Killed:
                killed = True
        die(first)
        open_store(metrics).flush()
        asyncio.run(upload(metrics, ObjectStore(connect())))
        assert epochs(uri) == [*range(2 * step + 2)], f"killed before step {step}"
        assert not [*finished(metrics)]
        if not killed:
            assert step > 10
            return
    pytest.fail("it has more steps than expected")


@pytest.mark.parametrize(
    "fault", [Fault.SLOW_DOWN, Fault.SERVER_ERROR, Fault.CONFLICT, Fault.LOST_REQUEST, Fault.LOST_RESPONSE]
)
def test_a_request_that_fails(connect: Connect, uri: str, proxy: Proxy, tmp_path: Path, fault: Fault) -> None:
    flushed(tmp_path, 1, 2, 3)
    store = ObjectStore(connect(through_proxy=True))
    proxy.plan(fault)
    with pytest.raises(Unavailable):
        asyncio.run(upload(tmp_path, store))
    assert proxy.met == [fault]
    assert len([*finished(tmp_path)]) == 1, "the others are moved"
    assert asyncio.run(upload(tmp_path, store)) == 1
    assert epochs(uri) == [1, 2, 3]


def test_a_request_that_arrives_late(connect: Connect, uri: str, proxy: Proxy, tmp_path: Path) -> None:
    """The process that made it is dead; its successor has moved the file."""
    flushed(tmp_path, 1)
    store = ObjectStore(connect(through_proxy=True, request_timeout_s=1))
    proxy.plan(Fault.HELD)
    with pytest.raises(Unavailable):
        asyncio.run(upload(tmp_path, store))
    assert asyncio.run(upload(tmp_path, store)) == 1
    proxy.let_go()
    assert epochs(uri) == [1]


def test_two_processes_at_once(connect: Connect, uri: str, tmp_path: Path) -> None:
    flushed(tmp_path, *range(20))

    async def both() -> None:
        await asyncio.gather(*(upload(tmp_path, ObjectStore(connect())) for _ in range(2)))

    asyncio.run(both())
    assert epochs(uri) == [*range(20)]


def test_a_store_that_closes_uploads_what_is_its_own(connect: Connect, uri: str, tmp_path: Path) -> None:
    connect()
    running = Uploads(tmp_path, Location.parse(uri), now_ms=lambda: NOON_MS)
    other = open_store(tmp_path, "log-0")
    other.add(event(7))
    other.close()
    AT_CLOSE[tmp_path] = running.finish  # as start does, without its thread
    try:
        flushed(tmp_path, 1)
    finally:
        del AT_CLOSE[tmp_path]
    assert epochs(uri) == [1]
    assert [path.name.split("-")[0] for path in finished(tmp_path)] == ["log"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_EVERY_S", 0.05)


@pytest.fixture
def running(connect: Connect, uri: str, tmp_path: Path, proxy: Proxy, quick: None) -> Iterator[Uploads]:
    connect(through_proxy=True)
    uploads_ = Uploads(tmp_path, Location.parse(uri), now_ms=lambda: NOON_MS)
    uploads_.start()
    yield uploads_
    uploads_.close()


def test_a_bucket_that_is_away_is_caught_up_with(
    running: Uploads, proxy: Proxy, uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    proxy.plan(*[Fault.SLOW_DOWN] * 12)
    flushed(tmp_path, *range(8))
    eventually(lambda: [*finished(tmp_path)], lambda left: not left, "an empty outbox")
    assert epochs(uri) == [*range(8)]
    assert len(proxy.met) == 12
    said = "the files of tables that waited are uploaded"
    eventually(lambda: caplog.messages, lambda messages: said in messages, said)
    assert sum(each.startswith("files of tables wait") for each in caplog.messages) == 1, "a trouble is said once"


def test_what_a_dead_process_left_is_adopted(connect: Connect, uri: str, tmp_path: Path, quick: None) -> None:
    connect()
    dead = open_store(tmp_path, "offsets-3")
    dead.add(event(5))
    die(dead)
    running = Uploads(tmp_path, Location.parse(uri), now_ms=lambda: NOON_MS)
    running.round()
    assert epochs(uri) == [5]


def test_the_oldest_files_go_if_there_are_too_many(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    flushed(tmp_path, 1, 2, 3)
    paths = [*finished(tmp_path)]
    drop_beyond(tmp_path, sum(path.stat().st_size for path in paths))
    assert [*finished(tmp_path)] == paths
    drop_beyond(tmp_path, 2 * paths[0].stat().st_size)
    assert [*finished(tmp_path)] == paths[1:]
    assert caplog.messages == [
        "1 rows of lifecycle are lost, of date=2023-11-15/hour=13: the bucket was away or slow for too long"
    ]


def test_a_bucket_that_is_too_slow(
    connect: Connect, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A round has an end, after which the limit of what waits is seen to."""
    connect()
    flushed(tmp_path, 1, 2, 3, 4)
    monkeypatch.setattr(uploads, "_MAX_FILES", 2)
    monkeypatch.setattr(uploads, "MAX_HELD_BYTES", 1 + max(path.stat().st_size for path in finished(tmp_path)))
    running = Uploads(tmp_path, Location.parse(uri), now_ms=lambda: NOON_MS)
    running.round()
    assert epochs(uri) == [1, 2]
    assert len([*finished(tmp_path)]) == 1
    assert sum("1 rows of lifecycle are lost" in each for each in caplog.messages) == 1
    running.round()
    assert epochs(uri) == [1, 2, 4]


def test_one_process_of_a_node_at_a_time(uri: str, tmp_path: Path) -> None:
    def of_a_process() -> Uploads:
        return Uploads(tmp_path, Location.parse(uri), now_ms=lambda: NOON_MS)

    first, second = of_a_process(), of_a_process()
    assert first._is_ours()
    assert first._is_ours()
    assert not second._is_ours()
    assert first._lock_fd is not None
    os.close(first._lock_fd)  # as the kernel does for a process that ends
    assert second._is_ours()


def test_processes_that_are_killed(connect: Connect, uri: str, tmp_path: Path) -> None:
    """While they write and flush, and others upload, which are killed as well."""
    store, written = ObjectStore(connect()), []
    for first in (0, 1_000_000, 2_000_000):
        command = [sys.executable, "-m", "tests.tables.events", str(tmp_path), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, b"")
            for _ in range(3):
                written += [int(next(lines)) for _ in range(200)]
                asyncio.run(upload(tmp_path, store))
            process.send_signal(signal.SIGKILL)
            written += [int(line) for line in lines if line.endswith(b"\n")]
    open_store(tmp_path).close()
    asyncio.run(upload(tmp_path, store))
    found = epochs(uri)
    assert len(found) == len(set(found))
    assert set(written) <= set(found)

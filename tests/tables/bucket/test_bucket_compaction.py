"""Compaction of a table in a bucket neither loses nor doubles a row, beside other runs, late writers and readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.actors.object_storage.bucket import Bucket
from muster.actors.object_storage.store import ObjectStore
from muster.actors.tables.bucket.compaction import BucketCompaction
from muster.actors.tables.bucket.hours import FILES, hours, listing
from muster.actors.tables.bucket.uploads import upload
from muster.actors.tables.compaction import Outcome, Policy
from muster.actors.tables.hours import MERGED
from muster.actors.tables.schemas.cluster import LIFECYCLE
from tests.object_storage.conftest import Connect, connect, proxy, service, uri
from tests.object_storage.faulty import Fault, Proxy
from tests.tables.bucket.making import DyingBackend, epochs, flushed
from tests.tables.events import HOUR_MS, NOON_MS
from tests.tables.killing import Killed, kill_at

pytestmark = [pytest.mark.ring(name="object-storage"), pytest.mark.timeout(120)]

__all__ = ["connect", "proxy", "service", "uri"]

GRACE_MS = 1000
Compact = Callable[..., Outcome]


class PausedBucket(Bucket):
    """Waits before each change of ``_files.json``, until it may go on."""

    reached: asyncio.Event
    go_on: asyncio.Event

    async def create(self, name: str, content: bytes) -> str:
        await self._pause(name)
        return await super().create(name, content)

    async def replace(self, name: str, content: bytes, etag: str) -> str:
        await self._pause(name)
        return await super().replace(name, content, etag)

    async def _pause(self, name: str) -> None:
        if name.endswith(FILES):
            self.reached.set()
            await self.go_on.wait()


def compaction(
    store: ObjectStore, scratch: Path, *, after_ms: int = HOUR_MS, retention_ms: int | None = None
) -> BucketCompaction:
    """``after_ms``: the time since noon, in whose hour everything was written."""
    policy = Policy(delay_ms=0, grace_ms=GRACE_MS, retention_ms=retention_ms)
    return BucketCompaction(store, policy, lambda: NOON_MS + after_ms, scratch)


def fill(store: ObjectStore, folder: Path, *numbers: int) -> list[str]:
    """Put an object for each row into the same hour; return their names there."""
    for number in numbers:
        flushed(folder / "metrics", number, owner=f"log-{number}", hours_apart=0)
    found = sorted(path.name for path in (folder / "metrics" / LIFECYCLE).rglob("*.parquet"))
    asyncio.run(upload(folder / "metrics", store))
    return found


def names(bucket: Bucket) -> list[str]:
    async def listed() -> list[str]:
        return [each.name.rpartition("/")[2] async for each in bucket.list("metrics/")]

    return asyncio.run(listed())


def test_an_hour_becomes_one_object(connect: Connect, uri: str, tmp_path: Path) -> None:
    store = ObjectStore(connect())
    written = fill(store, tmp_path, 1, 2, 3)
    early = asyncio.run(compaction(store, tmp_path, after_ms=HOUR_MS - 1).run())
    assert early == Outcome()
    outcome = asyncio.run(compaction(store, tmp_path).run())
    assert (outcome.merged, outcome.into, outcome.removed, outcome.problems) == (3, 1, 0, [])
    assert epochs(uri) == [1, 2, 3]
    assert set(written) < set(names(connect())), "they stay for readers that began before"
    assert asyncio.run(compaction(store, tmp_path).run()) == Outcome()
    outcome = asyncio.run(compaction(store, tmp_path, after_ms=HOUR_MS + GRACE_MS).run())
    assert (outcome.merged, outcome.removed) == (0, 3)
    assert epochs(uri) == [1, 2, 3]
    files, merged = names(connect())
    assert (files, merged.startswith(MERGED)) == (FILES, True)
    assert not [*tmp_path.glob(".compaction-*")]


def test_rows_that_come_later_are_merged_again(connect: Connect, uri: str, tmp_path: Path) -> None:
    store = ObjectStore(connect())
    fill(store, tmp_path, 1, 2)
    asyncio.run(compaction(store, tmp_path).run())
    fill(store, tmp_path, 3)
    assert epochs(uri) == [1, 2, 3]
    outcome = asyncio.run(compaction(store, tmp_path).run())
    assert (outcome.merged, outcome.into) == (2, 1)
    asyncio.run(compaction(store, tmp_path, after_ms=HOUR_MS + GRACE_MS).run())
    assert len(names(connect())) == 2
    assert epochs(uri) == [1, 2, 3]


def test_a_file_that_is_written_again_after_it_was_merged(connect: Connect, uri: str, tmp_path: Path) -> None:
    """Its writer was killed between the upload and the removal of the spool, and its node was away for a day."""
    store = ObjectStore(connect())
    fill(store, tmp_path, 1, 2)

    async def first() -> tuple[str, bytes]:
        (hour,) = await hours(store, LIFECYCLE)
        name = hour.prefix + min(hour.files())
        return name, (await store.read(name)).content

    name, content = asyncio.run(first())
    for after_ms in (HOUR_MS, HOUR_MS + GRACE_MS):
        asyncio.run(compaction(store, tmp_path, after_ms=after_ms).run())
    asyncio.run(store.create(name, content))
    assert epochs(uri) == [1, 2]
    outcome = asyncio.run(compaction(store, tmp_path, after_ms=HOUR_MS + GRACE_MS).run())
    assert (outcome.merged, outcome.removed) == (0, 1)
    fill(store, tmp_path, 3)
    for after_ms in (HOUR_MS + GRACE_MS, HOUR_MS + 2 * GRACE_MS):
        asyncio.run(compaction(store, tmp_path, after_ms=after_ms).run())
    asyncio.run(store.create(name, content))
    assert epochs(uri) == [1, 2, 3]


@pytest.mark.parametrize("merged_before", [False, True])
def test_a_run_that_was_paused(connect: Connect, uri: str, tmp_path: Path, *, merged_before: bool) -> None:
    """Another run goes on meanwhile: the paused one has no effect, and what it stored is removed."""
    store = ObjectStore(connect())
    fill(store, tmp_path, 1, 2)
    if merged_before:
        asyncio.run(compaction(store, tmp_path).run())
        fill(store, tmp_path, 3)
    rows = [1, 2, 3] if merged_before else [1, 2]

    async def run() -> None:
        paused = PausedBucket(connect().location)
        paused.reached, paused.go_on = asyncio.Event(), asyncio.Event()
        late = asyncio.create_task(compaction(ObjectStore(paused), tmp_path).run())
        await asyncio.wait_for(paused.reached.wait(), 30)
        other = await compaction(store, tmp_path).run()
        assert (other.into, other.removed) == (1, 1), "what the paused run stored is a leftover"
        paused.go_on.set()
        assert await late == Outcome()

    asyncio.run(run())
    assert epochs(uri) == rows
    asyncio.run(compaction(store, tmp_path, after_ms=HOUR_MS + GRACE_MS).run())
    assert epochs(uri) == rows
    assert len(names(connect())) == 2


def test_leftovers_are_removed_only_when_nobody_can_name_them(connect: Connect, uri: str, tmp_path: Path) -> None:
    """The run that removes them merges nothing itself, so that nothing else stops the paused one."""
    store = ObjectStore(connect())
    fill(store, tmp_path, 1, 2)

    async def run() -> None:
        paused = PausedBucket(connect().location)
        paused.reached, paused.go_on = asyncio.Event(), asyncio.Event()
        late = asyncio.create_task(compaction(ObjectStore(paused), tmp_path).run())
        await asyncio.wait_for(paused.reached.wait(), 30)
        other = await compaction(store, tmp_path, after_ms=HOUR_MS - 1).run()
        assert (other.into, other.removed) == (0, 1)
        paused.go_on.set()
        await late

    asyncio.run(run())
    assert epochs(uri) == [1, 2]


def test_a_kill_between_any_two_requests(connect: Connect, uri: str, tmp_path: Path) -> None:
    """Kill two runs: one merges, and one removes what was replaced."""
    store, step, killed = ObjectStore(connect()), 0, True
    while killed:
        killed = False
        fill(store, tmp_path / str(step), 2 * step, 2 * step + 1)
        dying = ObjectStore(DyingBackend(connect()))
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, step)
            try:
                for after_ms in (HOUR_MS, HOUR_MS + GRACE_MS):
                    asyncio.run(compaction(dying, tmp_path, after_ms=after_ms).run())
            except Killed:
                killed = True
        assert epochs(uri) == [*range(2 * step + 2)], f"killed before step {step}"
        for after_ms in (HOUR_MS, HOUR_MS + GRACE_MS):
            asyncio.run(compaction(store, tmp_path, after_ms=after_ms).run())
            assert epochs(uri) == [*range(2 * step + 2)], f"killed before step {step}, then continued"
        assert len(names(connect())) == 2
        step += 1
    assert step > 8


@pytest.mark.parametrize("part", [FILES, MERGED])
@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.CONFLICT, Fault.LOST_REQUEST, Fault.LOST_RESPONSE])
def test_a_request_that_fails(
    connect: Connect, uri: str, proxy: Proxy, tmp_path: Path, fault: Fault, part: str
) -> None:
    store = ObjectStore(connect(through_proxy=True))
    fill(store, tmp_path, 1, 2)
    proxy.plan(fault, part=part)
    outcome = asyncio.run(compaction(store, tmp_path).run())
    assert len(outcome.problems) == 1
    assert proxy.met == [fault]
    assert epochs(uri) == [1, 2]
    for after_ms in (HOUR_MS, HOUR_MS + GRACE_MS):
        assert asyncio.run(compaction(store, tmp_path, after_ms=after_ms).run()).problems == []
    assert epochs(uri) == [1, 2]
    assert len(names(connect())) == 2


def test_a_change_that_arrives_late(connect: Connect, uri: str, proxy: Proxy, tmp_path: Path) -> None:
    store = ObjectStore(connect(through_proxy=True, request_timeout_s=1))
    fill(store, tmp_path, 1, 2)
    proxy.plan(Fault.HELD, part=FILES)
    assert len(asyncio.run(compaction(store, tmp_path).run()).problems) == 1
    assert asyncio.run(compaction(store, tmp_path).run()).into == 1
    proxy.let_go()
    assert epochs(uri) == [1, 2]


def test_a_reader_between_listing_and_reading(connect: Connect, tmp_path: Path) -> None:
    store = ObjectStore(connect())
    fill(store, tmp_path, 1, 2)
    asyncio.run(compaction(store, tmp_path).run())
    fill(store, tmp_path, 3)

    async def run() -> None:
        (stale,) = await hours(store, LIFECYCLE)
        assert (await compaction(store, tmp_path).run()).into == 1
        _, found = await listing(store, stale)
        (merged,) = found.live
        assert merged.startswith(MERGED)
        assert merged not in stale.sizes

    asyncio.run(run())


def test_a_damaged_object_is_left(connect: Connect, tmp_path: Path) -> None:
    store = ObjectStore(connect())
    fill(store, tmp_path, 1, 2)

    async def spoil() -> str:
        (hour,) = await hours(store, LIFECYCLE)
        name = f"{hour.prefix}log-9-1700000000000-00000000-00000001.parquet"
        await store.create(name, b"PAR1 and no more")
        return name

    name = asyncio.run(spoil())
    running = compaction(store, tmp_path)
    for merged in (2, 0):
        outcome = asyncio.run(running.run())
        assert outcome.merged == merged
        (problem,) = outcome.problems
        assert problem.startswith(f"{name}: is not a whole Parquet file")


def test_an_hour_past_its_retention(connect: Connect, uri: str, tmp_path: Path) -> None:
    store = ObjectStore(connect())
    fill(store, tmp_path, 1, 2)
    asyncio.run(compaction(store, tmp_path).run())
    end = asyncio.run(compaction(store, tmp_path, after_ms=2 * HOUR_MS, retention_ms=HOUR_MS).run())
    assert (end.expired, end.removed) == (1, 0)
    assert epochs(uri) == []
    assert len(names(connect())) == 4, "they stay for readers that began before"
    fill(store, tmp_path, 3)
    assert epochs(uri) == [], "a late writer changes nothing"
    asyncio.run(compaction(store, tmp_path, after_ms=2 * HOUR_MS + GRACE_MS, retention_ms=HOUR_MS).run())
    assert names(connect()) == []

"""Every row that an event store took is in its table once, after a kill at any time; losses are reported."""

from __future__ import annotations

import errno
import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.actors.tables import events, folder, parquet
from muster.actors.tables.events import EventStore
from tests.tables.events import HOUR_MS, NOON_MS, epochs, event, open_store, rows
from tests.tables.killing import Killed, die, kill_at

ROOT = Path(__file__).parents[2]


def refuse(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    store = open_store(tmp_path)
    yield store
    store.close()


def test_without_rows_there_are_no_files(store: EventStore, tmp_path: Path) -> None:
    assert store.flush() == 0
    assert list(tmp_path.iterdir()) == []


def test_what_is_added_is_what_is_read(store: EventStore, tmp_path: Path) -> None:
    store.add(event(1, node_id="n-1", reason="a \n b"))
    store.add(event(2, ts_ms=NOON_MS + HOUR_MS))
    assert store.flush() == 2
    assert store.flush() == 0
    first, second = rows(tmp_path)
    assert first["ts"].timestamp() * 1000 == NOON_MS
    assert (first["node_id"], first["reason"], first["pid"]) == ("n-1", "a \n b", None)
    assert second["node_id"] is None
    files = {str(path.parent.relative_to(tmp_path)): path.name for path in tmp_path.rglob("*.parquet")}
    assert sorted(files) == ["lifecycle/date=2023-11-15/hour=12", "lifecycle/date=2023-11-15/hour=13"]
    assert all(name.startswith("controller-") for name in files.values())


def test_close_flushes_removes_the_spool_and_takes_nothing_any_more(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.add(event(1))
    store.close()
    store.close()
    assert epochs(tmp_path) == [1]
    assert not [path for path in (tmp_path / "spool").rglob("*") if path.is_file()]
    with pytest.raises(ValueError, match="closed"):
        store.add(event(2))


@pytest.mark.parametrize("wrong", [{"epocch": 1}, {"actor": None, "colour": "red"}])
def test_columns_that_the_table_does_not_have_are_an_error_at_once(store: EventStore, wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"missing or unknown: (epocch|colour)"):
        store.add(event(1) | wrong)
    without = event(1)
    del without["actor"]
    with pytest.raises(ValueError, match="actor"):
        store.add(without)


MISFITS: list[dict[str, object]] = [
    {"pid": "many"},
    {"actor": None},
    {"epoch": 1 << 40},
    {"reason": "\ud800"},
    {"ts": None},
    {"ts": "noon"},
    {"ts": 10**20},
]


def test_rows_of_wrong_types_block_no_reader(
    store: EventStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for row in (event(1), *(event(2) | misfit for misfit in MISFITS), event(4)):
        store.add(row)
    assert store.flush() == 2
    assert epochs(tmp_path) == [1, 4]
    assert len([each for each in caplog.messages if "does not fit" in each]) == len(MISFITS)


def test_rows_of_wrong_types_block_no_successor(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    for row in (event(1), *(event(2) | misfit for misfit in MISFITS), event(4)):
        first.add(row)
    spool = next(tmp_path.rglob("*.jsonl"))
    spool.write_bytes(spool.read_bytes() + b"torn")
    die(first)
    open_store(tmp_path).close()
    assert epochs(tmp_path) == [1, 4]


def test_tables_and_owners_do_not_take_each_others_spools(tmp_path: Path) -> None:
    living, other = open_store(tmp_path, "offsets-1"), open_store(tmp_path, "offsets-11")
    living.add(event(1))
    other.add(event(2))
    die(other)
    successor = open_store(tmp_path, "offsets-1")
    assert successor.flush() == 0
    die(living)
    assert successor.flush() == 1
    assert epochs(tmp_path) == [1]
    assert open_store(tmp_path, "offsets-11").flush() == 1


def test_a_torn_line_is_dropped_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = open_store(tmp_path)
    first.add(event(1))
    first.add(event(2))
    spool = next(tmp_path.rglob("*.jsonl"))
    spool.write_bytes(spool.read_bytes()[:-7])
    die(first)
    open_store(tmp_path).close()
    assert epochs(tmp_path) == [1]
    (said,) = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert "controller-" in said
    assert "at most 1 lines are lost, added between 2023-11-15T12:00:00.000+00:00 and" in said


def test_a_kill_with_a_sound_disk_loses_nothing_and_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = open_store(tmp_path)
    first.add(event(1))
    die(first)
    open_store(tmp_path).close()
    assert epochs(tmp_path) == [1]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_full_disk_loses_nothing_while_the_process_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(folder.SpoolFolder, "create", refuse)
        store.add(event(1))
        with pytest.raises(OSError, match="No space"):
            store.flush()
    assert store.flush() == 1
    store.add(event(2))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        store.add(event(3))
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "write_whole", refuse)
        with pytest.raises(OSError, match="No space"):
            store.close()
    store.close()
    assert epochs(tmp_path) == [1, 2, 3]


def test_a_kill_on_a_full_disk_says_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a line, then nothing of two more; the disk has space again for the last."""
    store = open_store(tmp_path)
    write = os.write
    store.add(event(1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[:20]))
        store.add(event(2))
        patch.setattr(os, "write", refuse)
        store.add(event(3))
        store.add(event(4))
    store.add(event(5))
    die(store)
    open_store(tmp_path).close()
    assert epochs(tmp_path) == [1, 5]
    assert [each for each in caplog.messages if "at most 3 lines are lost" in each]


def test_what_is_held_in_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(events, "MAX_ROWS_HELD", 3)
    store = open_store(tmp_path)
    for epoch in range(5):
        store.add(event(epoch))
    assert store.flush() == 3
    assert [each for each in caplog.messages if "2 rows of lifecycle are lost" in each]
    store.add(event(9))
    store.close()
    assert epochs(tmp_path) == [0, 1, 2, 9]


def test_killed_between_any_two_steps_of_flush_and_of_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def history(store: EventStore) -> None:
        for epoch in range(1, 5):
            store.add(event(epoch, ts_ms=NOON_MS + epoch % 2 * HOUR_MS))
            taken.append(epoch)
            if epoch == 3:
                store.flush()
        store.close()

    def killed(store: EventStore, step: int, work: Callable[[], None]) -> bool:
        with monkeypatch.context() as patch:
            kill_at(patch, step, writes=True)
            try:
                work()
            except Killed:
                if store._folder is not None:
                    die(store)
                return True
        return False

    first_kill = steps = 0
    more = True
    while more:
        for second_kill in range(100):
            directory = tmp_path / f"{first_kill}-{second_kill}"
            directory.mkdir()
            taken.clear()
            first, heir = open_store(directory), open_store(directory)
            more = killed(first, first_kill, lambda store=first: history(store))
            again = killed(heir, second_kill, heir.close)
            open_store(directory).close()
            found = epochs(directory)
            assert len(found) == len(set(found)), "counted twice"
            assert set(taken) <= set(found), "lost"
            steps += 1
            if not again:
                break
        first_kill += 1
    assert first_kill > 10
    assert steps > 2 * first_kill


@pytest.mark.parametrize("seed", range(2))
def test_a_writer_killed_at_a_random_moment(tmp_path: Path, seed: int) -> None:
    """SIGKILL, twice in a row so that the second kill may hit the recovery; then a clean successor."""
    chance = random.Random(seed)
    taken: set[int] = set()
    for first in (0, 1_000_000):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.tables.events", str(tmp_path), str(first)], stdout=subprocess.PIPE, cwd=ROOT
        )
        assert process.stdout is not None
        with process.stdout as pipe:
            for _ in range(chance.randrange(1, 2000)):
                taken.add(int(pipe.readline()))
            process.kill()
            taken.update(int(line) for line in pipe.read().split(b"\n")[:-1])
        process.wait()
    open_store(tmp_path).close()
    found = epochs(tmp_path)
    assert len(found) == len(set(found)), "counted twice"
    assert taken <= set(found), "lost"
    assert len(set(found) - taken) <= 2, "more than the one row per kill that the process could not report"

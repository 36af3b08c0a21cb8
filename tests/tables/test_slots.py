"""A run's counters in its slot: the counts survive a kill at any point, and one slot belongs to one run."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from muster.actors.tables import slots
from muster.actors.tables.slots import COPY_BYTES, SEGMENT_BYTES, SLOT_BYTES, Counters, SlotFile, counters
from muster.actors.tables.spool import SampleStore
from tests.tables.killing import die
from tests.tables.test_spool import HOUR_MS, NOON_MS, begun, fetched, open_store, rows, runs

PER_SEGMENT = SEGMENT_BYTES // SLOT_BYTES
STORED_BYTES = COPY_BYTES
REFUSED = OSError(errno.ENOSPC, "No space left on device")


def stored(fetches: int) -> Counters:
    return Counters(fetches, NOON_MS + fetches, 10 * fetches, 1_000 * fetches, 10 * fetches - 1, fetches, 2 * fetches)


def packed(wanted: Counters) -> bytes:
    return struct.pack("<8q", *wanted, wanted.fetches)


def take_and_store(directory: Path, last: int) -> bytes:
    """Return the file of one slot, stored up to that many fetches."""
    file = SlotFile(directory / f"{last}.slots")
    number, segment, at = file.take()
    for fetches in range(2, last + 1):
        values = stored(fetches)
        slots.pack_into(segment, at + COPY_BYTES * (fetches & 1), *values, values.fetches)
    file.close()
    assert number == 0
    return (directory / f"{last}.slots").read_bytes()


@pytest.mark.parametrize("last", [2, 3, 4, 300])
def test_killed_at_any_byte_of_a_store_a_slot_has_what_held_before_or_after(tmp_path: Path, last: int) -> None:
    """Stored like struct does: the copy is cleared, then written from its beginning; or only written, as others do."""
    before, after = take_and_store(tmp_path, last - 1), take_and_store(tmp_path, last)
    assert counters(after, 0) == stored(last)
    known = stored(last - 1) if last > 2 else None
    at = COPY_BYTES * (last & 1)
    new, old = after[at : at + STORED_BYTES], before[at : at + STORED_BYTES]
    assert new == packed(stored(last))
    for done in range(STORED_BYTES):
        for rest in (bytes(STORED_BYTES), old):
            torn = new[:done] + rest[done:]
            found = counters(before[:at] + torn + before[at + STORED_BYTES :], 0)
            assert found == (stored(last) if torn == new else known), done


def test_clearing_a_copy_takes_nothing_that_holds(tmp_path: Path) -> None:
    whole = take_and_store(tmp_path, 9)
    where_the_tenth_goes = bytes(STORED_BYTES) + whole[STORED_BYTES:]
    assert counters(where_the_tenth_goes, 0) == stored(9)


def test_a_file_that_was_cut_short_has_no_counters_behind_its_end(tmp_path: Path) -> None:
    whole = take_and_store(tmp_path, 3)
    assert counters(whole, PER_SEGMENT) is None
    assert counters(whole[:COPY_BYTES], 0) == stored(2)
    assert counters(b"", 0) is None


def test_a_file_of_slots_is_never_sparse(tmp_path: Path) -> None:
    """Otherwise the first store to a page would be SIGBUS once the disk is full."""
    take_and_store(tmp_path, 2)
    assert (tmp_path / "2.slots").stat().st_blocks * 512 >= SEGMENT_BYTES


def test_as_many_runs_as_there_are(tmp_path: Path) -> None:
    """Including those that need another segment, each with its own counters, and lines only for their beginnings."""
    store, count = open_store(tmp_path), 2 * PER_SEGMENT + 1
    going = [begun(store, fetched(0, 9, partition=number)) for number in range(count)]
    size_bytes = next(tmp_path.rglob("*.jsonl")).stat().st_size
    for times in (1, 2):
        for number, run in enumerate(going):
            assert run.extend(NOON_MS + times, number + 1, 7, 10 * times, 10 * times + 9)
    assert next(tmp_path.rglob("*.jsonl")).stat().st_size == size_bytes
    die(store)
    open_store(tmp_path).close()
    found = {row["partition"]: (row["messages"], row["bytes"], row["last_offset"]) for row in rows(tmp_path)}
    assert found == {number: (10 + 2 * (number + 1), 1014, 29) for number in range(count)}
    assert not list((tmp_path / "spool").iterdir())


def test_a_run_stores_in_turn(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    run = begun(store, fetched(0, 9))
    for times in (1, 2, 3):
        assert run.extend(NOON_MS + times, 10, 1000, 10 * times, 10 * times + 9, 1)
    held = next(tmp_path.rglob("*.slots")).read_bytes()
    copies = [held[at : at + STORED_BYTES] for at in (0, COPY_BYTES)]
    assert copies == [packed(Counters(n, NOON_MS + n - 1, 10 * n, 1000 * n, 10 * n - 1, n - 1, 0)) for n in (4, 3)]
    store.close()


def test_the_next_spool_has_slots_of_its_own(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    begun(store, fetched(0, 9)).extend(NOON_MS, 10, 1000, 10, 19)
    store.flush()
    assert not list(tmp_path.rglob("*.slots"))
    begun(store, fetched(20, 29)).extend(NOON_MS, 10, 1000, 30, 39)
    die(store)
    open_store(tmp_path).close()
    assert runs(tmp_path) == [(0, 19, 20, 2), (20, 39, 20, 2)]


def _refuse_slots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "posix_fallocate", lambda fd, begin, size: _raise(REFUSED))


def _refuse_slot_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SlotFile, "__init__", lambda self, path: _raise(REFUSED))


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("refuse", [_refuse_slots, _refuse_slot_file])
@pytest.mark.parametrize("is_killed", [False, True])
def test_without_slots_each_sample_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[pytest.MonkeyPatch], None], is_killed: bool
) -> None:
    store = open_store(tmp_path)
    with monkeypatch.context() as patch:
        refuse(patch)
        for first in (0, 10):
            assert store.add(fetched(first, first + 9)) is None
    begun(store, fetched(20, 29)).extend(NOON_MS, 10, 1000, 30, 39)
    if is_killed:
        die(store)
        store = open_store(tmp_path)
    store.close()
    assert runs(tmp_path) == [(0, 19, 20, 2), (20, 39, 20, 2)]


def test_a_slot_whose_line_was_not_written_whole_is_given_to_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line may be complete except for its end: then it counts, once, and with its initial values."""
    store, write = open_store(tmp_path), os.write
    with monkeypatch.context() as patch:
        patch.setattr("muster.actors.tables.folder.os.write", lambda fd, data: write(fd, data[:-1]))
        assert store.add(fetched(0, 9)) is None
    begun(store, fetched(10, 19)).extend(NOON_MS, 10, 1000, 20, 29)
    die(store)
    open_store(tmp_path).close()
    assert runs(tmp_path) == [(0, 9, 10, 1), (10, 29, 20, 2)]


def test_rows_are_the_same_whether_they_come_from_memory_or_from_a_spool(tmp_path: Path) -> None:
    """Two connections read the same partition; pending samples and the end of an hour are included."""

    def history(store: SampleStore) -> None:
        one, other = begun(store, fetched(0, 9)), begun(store, fetched(5, 9))
        handle = store.add_pending(fetched(10, 19, group=None, reason="pending"))
        for run, first in ((one, 10), (other, 10), (other, 20), (one, 20)):
            assert run.extend(NOON_MS + first, 10, 1000, first, first + 9)
        store.settle(handle, group="billing", member_id="m-1", evidence="assignment", reason=None)
        late = replace(fetched(30, 39), ts_ms=NOON_MS + HOUR_MS)
        assert not one.extend(late.ts_ms, 10, 1000, 30, 39)
        assert begun(store, late).extend(late.ts_ms, 10, 1000, 40, 49)

    for name in ("memory", "spool"):
        store = open_store(tmp_path / name)
        history(store)
        if name == "spool":
            die(store)
            store = open_store(tmp_path / name)
        store.close()
    found = rows(tmp_path / "memory")
    assert sorted(map(str, rows(tmp_path / "spool"))) == sorted(map(str, found))
    assert sum(row["messages"] for row in found) == 10 + 5 + 4 * 10 + 10 + 20

"""Every rebalance that the store took is in the table once, after a kill at any time; and it is readable."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from muster.actors.tables import parquet
from muster.actors.tables.rebalance_entry import RebalanceEntry
from muster.actors.tables.rebalances import RebalanceStore, encode, place_of
from muster.actors.tables.schemas.rebalances import REBALANCES_SCHEMA
from tests.tables.killing import die
from tests.tables.rebalances import NOON_MS, aborted, entry

ROOT = Path(__file__).parents[2]
HOUR_MS = 3_600_000


def open_store(directory: Path, partition: int = 7) -> RebalanceStore:
    return RebalanceStore(directory, partition, now_ms=lambda: NOON_MS)


def keep(store: RebalanceStore, *entries: RebalanceEntry) -> None:
    for each in entries:
        store.add(each, encode(each))


def rows(directory: Path) -> list[dict[str, Any]]:
    if not (directory / "rebalances").exists():
        return []
    table = ds.dataset(directory / "rebalances", schema=REBALANCES_SCHEMA.arrow, format="parquet").to_table()
    return sorted(table.to_pylist(), key=lambda row: (row["epoch"], row["number"]))


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RebalanceStore]:
    store = open_store(tmp_path)
    yield store
    store.close()


def test_without_rebalances_there_are_no_files(store: RebalanceStore, tmp_path: Path) -> None:
    assert store.flush() == 0
    assert store.recent("billing", 10) == []
    assert files(tmp_path) == []
    keep(store, entry(1))
    assert store.flush() == 1
    written = files(tmp_path)
    assert store.flush() == 0
    assert files(tmp_path) == written


def test_what_is_written_is_what_is_read(store: RebalanceStore, tmp_path: Path) -> None:
    entries = [entry(1), aborted(2)]
    keep(store, *entries)
    assert store.recent("billing", 10) == entries[::-1], "from the spool"
    assert store.flush() == 2
    assert store.recent("billing", 10) == entries[::-1], "from the table"
    first, second = rows(tmp_path)
    assert first["began"].timestamp() * 1000 == entry(1).began_ms
    assert first["lost_partition_ms"] == 800
    assert first["join_waits"][1]["after_ms"] is None
    assert first["partitions"] == [{"topic": "t", "partition": 0, "ms": 400}, {"topic": "t", "partition": 1, "ms": 400}]
    assert (second["stable"], second["culprit"], second["partitions_still"]) == (None, None, None)


def test_rows_are_in_the_folder_of_the_hour_in_which_they_ended(store: RebalanceStore, tmp_path: Path) -> None:
    keep(store, entry(1, ended_ms=NOON_MS + HOUR_MS - 1), entry(2, ended_ms=NOON_MS + HOUR_MS))
    assert store.flush() == 2
    hours = {path.parent.relative_to(tmp_path) for path in tmp_path.rglob("*.parquet")}
    assert {str(hour) for hour in hours} == {
        "rebalances/date=2023-11-15/hour=12",
        "rebalances/date=2023-11-15/hour=13",
    }


def test_recent_is_bounded_newest_first_and_of_one_group(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    keep(first, *(entry(number, ended_ms=NOON_MS + number * HOUR_MS) for number in range(1, 6)))
    keep(first, entry(6, group="other"))
    first.close()
    store = open_store(tmp_path)
    keep(store, entry(1, epoch=2, ended_ms=NOON_MS + 9 * HOUR_MS))
    assert [each.key[1:] for each in store.recent("billing", 3)] == [(2, 1), (1, 5), (1, 4)]
    assert len(store.recent("billing", 100)) == 6
    assert [each.number for each in store.recent("other", 100)] == [6]
    assert open_store(tmp_path, partition=8).recent("billing", 100) == []
    store.close()


def test_those_that_ended_after_a_place_come_in_their_order_page_by_page(tmp_path: Path) -> None:
    store, other = open_store(tmp_path), open_store(tmp_path, partition=8)
    entries = [entry(number, ended_ms=NOON_MS + number // 2 * 1_000_000) for number in range(1, 40)]
    clock_is_behind_ms = HOUR_MS // 2
    second_ms = entries[-1].ended_ms - clock_is_behind_ms
    entries += [entry(number, epoch=2, ended_ms=second_ms + number * 1_000) for number in range(1, 5)]
    keep(store, *entries[10:20][::-1])
    store.flush()
    keep(store, *entries[:10], *entries[20:])
    store.flush()
    keep(store, entry(5, epoch=3))
    keep(other, entry(1, offsets_partition=8))
    for limit in (1, 3, 100):
        after, found = (1, NOON_MS + 2_000_000, 4), []
        while page := store.ended(after, (2, second_ms + 3_000, 1 << 62), limit):
            assert len(page) <= limit
            found += page
            after = place_of(page[-1])
        wanted = [each for each in entries if each.epoch == 1 and each.number > 4]
        assert found == [*wanted, *(each for each in entries if each.epoch == 2 and each.number <= 3)]
    store.close()
    other.close()


def test_rows_of_a_dead_process_are_returned_at_once_and_recovered_by_the_next_flush(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    keep(first, entry(1))
    first.flush()
    keep(first, entry(2))
    die(first)
    store = open_store(tmp_path)
    assert [each.number for each in store.recent("billing", 10)] == [2, 1]
    assert store.flush() == 1
    assert [each.number for each in store.recent("billing", 10)] == [2, 1]
    assert files(tmp_path / "spool") == []
    store.close()


def test_a_folder_that_is_removed_while_it_is_read_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor removes it, between two system calls of the reader."""
    first = open_store(tmp_path)
    keep(first, entry(1))
    die(first)
    store = open_store(tmp_path)
    look = os.scandir

    def removed_just_before(path: Any) -> Any:
        if Path(path).parent.name == "spool":
            patched.undo()
            assert store.flush() == 1
        return look(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", removed_just_before)
        assert [each.number for each in open_store(tmp_path).recent("billing", 10)] == [1]
    store.close()


def test_a_process_that_lives_keeps_its_spool(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    keep(first, entry(1))
    second = open_store(tmp_path)
    assert second.flush() == 0
    second.close()
    first.close()
    assert [row["number"] for row in rows(tmp_path)] == [1]


def test_a_torn_line_is_dropped_and_the_rest_kept(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    keep(first, entry(1))
    (spool,) = (tmp_path / "spool").glob("*/*.jsonl")
    with spool.open("ab") as file:
        file.write(encode(entry(2))[:-40])
    die(first)
    store = open_store(tmp_path)
    assert store.flush() == 1
    assert [row["number"] for row in rows(tmp_path)] == [1]
    store.close()


def test_a_disk_that_refuses_loses_nothing(
    store: RebalanceStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, entry(1))
    with monkeypatch.context() as patch:

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(parquet, "write_whole", refuse)
        with pytest.raises(OSError, match="No space"):
            store.flush()
    keep(store, entry(2))
    assert store.flush() == 2
    assert [row["number"] for row in rows(tmp_path)] == [1, 2]


def test_a_dead_process_whose_folder_cannot_be_used_blocks_nothing(tmp_path: Path) -> None:
    (tmp_path / "spool" / "offsets-7-dead" / "lock").mkdir(parents=True)
    store = open_store(tmp_path)
    keep(store, entry(1))
    with pytest.raises(IsADirectoryError):
        store.flush()
    assert [row["number"] for row in rows(tmp_path)] == [1]
    (tmp_path / "spool" / "offsets-7-dead" / "lock").rmdir()
    store.close()


def test_after_close_nothing_is_taken(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(ValueError, match="closed"):
        keep(store, entry(1))


@pytest.mark.parametrize("seed", range(2))
def test_a_writer_killed_at_a_random_moment(tmp_path: Path, seed: int) -> None:
    """SIGKILL, twice in a row so that the second kill may hit the recovery; then a clean successor."""
    chance = random.Random(seed)
    taken: set[int] = set()
    for first in (0, 1_000_000):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.tables.rebalances", str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert process.stdout is not None
        with process.stdout as pipe:
            for _ in range(chance.randrange(1, 400)):
                taken.add(int(pipe.readline()))
            process.kill()
            taken.update(int(line) for line in pipe.read().split(b"\n")[:-1])
        process.wait()
    store = open_store(tmp_path)
    store.flush()
    store.close()
    found = [row["number"] for row in rows(tmp_path)]
    assert len(found) == len(set(found)), "counted twice"
    assert taken <= set(found), "lost"
    assert len(set(found) - taken) <= 2, "more than the one entry per kill that the process could not report"

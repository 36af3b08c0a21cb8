"""Spools of writers that never restart."""

from __future__ import annotations

from pathlib import Path

from muster.actors.tables.orphans import adopt
from tests.tables import events
from tests.tables.events import NOON_MS, event
from tests.tables.killing import die
from tests.tables.rebalances import entry
from tests.tables.test_rebalances import keep
from tests.tables.test_rebalances import open_store as open_rebalances
from tests.tables.test_rebalances import rows as rebalances
from tests.tables.test_spool import fetched, pending
from tests.tables.test_spool import open_store as open_samples
from tests.tables.test_spool import rows as samples


def test_every_row_of_dead_writers_is_recovered_and_none_of_living_ones(tmp_path: Path) -> None:
    for is_dead in (True, False):
        first = 0 if is_dead else 1000
        gateway, partition, log = (3, 5, "log-7") if is_dead else (1, 2, "log-0")
        sent, ended, lifecycle = (
            open_samples(tmp_path, gateway),
            open_rebalances(tmp_path, partition),
            events.open_store(tmp_path, log),
        )
        sent.add(fetched(first, first + 9))
        sent.add_pending(pending(first + 10, first + 19))
        keep(ended, entry(first + 1, offsets_partition=partition))
        lifecycle.add(event(first))
        if is_dead:
            for store in (sent, ended, lifecycle):
                die(store)
        else:
            living = (sent, ended, lifecycle)
    assert adopt(tmp_path, lambda: NOON_MS) == []
    assert [(row["gateway"], row["first_offset"], row["reason"]) for row in samples(tmp_path)] == [
        (3, 0, None),
        (3, 10, "pending"),
    ]
    assert [row["offsets_partition"] for row in rebalances(tmp_path)] == [5]
    assert events.epochs(tmp_path) == [0]
    assert adopt(tmp_path, lambda: NOON_MS) == []
    assert events.epochs(tmp_path) == [0]
    for store in living:
        store.close()
    assert (len(samples(tmp_path)), len(rebalances(tmp_path)), events.epochs(tmp_path)) == (4, 2, [0, 1000])


def test_a_spool_that_the_disk_refuses_does_not_block_the_others(tmp_path: Path) -> None:
    for number in range(3):
        store = events.open_store(tmp_path, f"log-{number}")
        store.add(event(number))
        die(store)
    (refused,) = tmp_path.rglob("log-1-*")
    (refused / "00000000.jsonl").mkdir()
    (problem,) = adopt(tmp_path, lambda: NOON_MS)
    assert problem.startswith("what log-1 left stays in its spool: ")
    assert events.epochs(tmp_path) == [0, 2]
    (refused / "00000000.jsonl").rmdir()
    assert adopt(tmp_path, lambda: NOON_MS) == []
    assert events.epochs(tmp_path) == [0, 1, 2]


def test_without_spools(tmp_path: Path) -> None:
    assert adopt(tmp_path / "metrics", lambda: NOON_MS) == []
    (tmp_path / "spool" / "lifecycle" / "notes").mkdir(parents=True)
    assert adopt(tmp_path, lambda: NOON_MS) == []

"""Thinning of commits: one row for each partition that moved, whatever happened to it in between."""

from __future__ import annotations

from typing import Any

from muster.actors.group.events import OffsetsCommitted, RemovedOffset
from muster.actors.group.types import GroupId, MemberId
from muster.actors.offsets.history.commit_window import CommitWindow, Kind

G = GroupId("billing")


def committed(*steps: tuple[str, int, int | None, int], member_id: str | None = "m", generation: int = 3) -> Any:
    """(topic, partition, before, offset)."""
    return OffsetsCommitted(
        group=G,
        generation=None if member_id is None else generation,
        member_id=None if member_id is None else MemberId(member_id),
        client_id="rdkafka",
        host="10.0.0.7",
        partitions=tuple(steps),
    )


def rows(window: CommitWindow) -> dict[tuple[str, int], dict[str, Any]]:
    made = [*window.rows(offsets_partition=7, epoch=2)]
    assert {(row["offsets_partition"], row["epoch"], row["group"]) for row in made} <= {(7, 2, G)}
    return {(row["topic"], row["partition"]): row for row in made}


def test_the_last_commit_counts_and_the_lowest_is_kept() -> None:
    window = CommitWindow()
    for at_ms, before, offset in ((100, 4, 10), (200, 10, 3), (300, 3, 8)):
        window.committed(committed(("t", 0, before, offset), member_id=f"m{at_ms}"), at_ms)
    assert rows(window)["t", 0] == {
        "ts": 300,
        "offsets_partition": 7,
        "epoch": 2,
        "group": G,
        "topic": "t",
        "partition": 0,
        "kind": "commit",
        "offset": 8,
        "lowest": 3,
        "previous": 4,
        "commits": 3,
        "generation": 3,
        "member_id": "m300",
        "client_id": "rdkafka",
        "host": "10.0.0.7",
    }


def test_memory_is_that_of_the_partitions_not_of_the_commits() -> None:
    window = CommitWindow()
    assert not window
    for offset in range(1000):
        window.committed(committed(("t", 0, offset, offset + 1), ("u", 5, None, offset)), offset)
    assert len(window) == 2
    assert [row["commits"] for row in rows(window).values()] == [1000, 1000]


def test_offsets_that_went() -> None:
    window = CommitWindow()
    window.removed(G, [RemovedOffset("t", 0, 9)], Kind.EXPIRED, 100)
    window.committed(committed(("t", 1, 3, 5)), 100)
    window.removed(G, [RemovedOffset("t", 1, 5)], Kind.DELETED, 200)
    window.removed(G, [RemovedOffset("t", 2, 7)], Kind.DELETED, 100)
    window.committed(committed(("t", 2, None, 1), member_id=None), 200)
    found = rows(window)
    values = {
        key: [row[name] for name in ("kind", "offset", "lowest", "previous", "commits")] for key, row in found.items()
    }
    assert values == {
        ("t", 0): ["expired", None, None, 9, 0],
        ("t", 1): ["deleted", None, 5, 3, 1],
        ("t", 2): ["commit", 1, 1, 7, 1],
    }
    who = {
        key: [row[name] for name in ("ts", "generation", "member_id", "client_id", "host")]
        for key, row in found.items()
    }
    assert who == {
        ("t", 0): [100, None, None, None, None],
        ("t", 1): [200, 3, "m", "rdkafka", "10.0.0.7"],
        ("t", 2): [200, None, None, "rdkafka", "10.0.0.7"],
    }

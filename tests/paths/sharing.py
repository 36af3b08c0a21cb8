"""A group of two members that share, rebalance, commit and resume, for every client library alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tests.conformance.topics import committed, create_topic, fill, now_ms
from tests.muster_process import eventually

PARTITIONS = 4
EACH = 25
"""Records of a partition in each of the two rounds."""


class Reader(Protocol):
    """A member that commits what it reads."""

    def assigned(self) -> set[tuple[str, int]]:
        """Its topic partitions now."""

    def values(self) -> Sequence[object]:
        """Return a value for each record that it has read."""


R = TypeVar("R", bound=Reader)


def share_rebalance_and_resume(
    bootstrap: str, topic: str, start: Callable[[str], R], leave: Callable[[R], object]
) -> None:
    """Let the second of two members come and leave; the first resumes where the second has committed.

    ``start`` starts a member of the group ``topic``, given its client id; ``leave`` makes it leave in order.
    """
    create_topic(bootstrap, topic, PARTITIONS)
    everything = {(topic, partition) for partition in range(PARTITIONS)}

    def until_shared(*members: R) -> None:
        """Wait until they have all partitions, equally many each, and none twice."""
        fair = PARTITIONS // len(members)
        eventually(
            lambda: [member.assigned() for member in members],
            lambda held: set().union(*held) == everything and all(len(each) == fair for each in held),
            f"{len(members)} share {topic}",
        )

    def fill_until_committed(offset: int) -> None:
        for partition in range(PARTITIONS):
            fill(bootstrap, topic, partition, [now_ms()] * EACH)
        ends = dict.fromkeys(everything, offset)
        eventually(lambda: committed(bootstrap, topic), lambda offsets: offsets == ends, f"{ends} committed")

    first = start("first")
    until_shared(first)
    second = start("second")
    until_shared(first, second)
    fill_until_committed(EACH)
    halves = EACH * PARTITIONS // 2
    assert (len(first.values()), len(second.values())) == (halves, halves)

    leave(second)
    until_shared(first)
    fill_until_committed(2 * EACH)
    assert len(second.values()) == halves
    assert len(first.values()) == halves + EACH * PARTITIONS, "nothing twice"
    leave(first)

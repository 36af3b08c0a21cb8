"""A fetch session: the partitions that one client fetches from this gateway, in the order in which they are served."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster.gateway.fetch_sessions.partition import CachedPartition, Key

INITIAL_EPOCH = 0
"""In a request: begin a new session."""
FINAL_EPOCH = -1
"""In a request: have no session, and end the one that it names."""
INVALID_SESSION_ID = 0
_MAX_EPOCH = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """Return the epoch of the request after that one (Kafka's ``FetchMetadata.nextEpoch``)."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_EPOCH else epoch + 1


class FetchSession:
    """Fetch session, like Kafka's. Times are ms."""

    __slots__ = (
        "cached_size",
        "changes",
        "created_ms",
        "epoch",
        "id",
        "is_old",
        "last_used_ms",
        "members",
        "partitions",
        "plan",
        "uses_topic_ids",
    )

    def __init__(
        self, session_id: int, partitions: Iterable[CachedPartition], now_ms: int, *, uses_topic_ids: bool
    ) -> None:
        self.id = session_id
        self.partitions: dict[Key, CachedPartition] = {each.key: each for each in partitions}
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        """The one that the next request must have."""
        self.cached_size = len(self.partitions)
        """The number of partitions when it was last used."""
        self.is_old = False
        """Whether it may give way to a larger one: it had lived long enough when it was last used."""
        self.changes = 0
        """Grows with everything that requests and their order change."""
        self.members = 0
        """Grows with changes of which partitions there are."""
        self.plan: Any = None
        """Plan that its handler has prepared, for ``changes``."""

    def update(self, requested: Iterable[CachedPartition], forgotten: Iterable[Key]) -> None:
        """Apply what an incremental request names: first what it adds and changes, then what it forgets."""
        for partition in requested:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = partition
                self.members += 1
            else:
                known.request(partition)
            self.changes += 1
        for key in forgotten:
            if self.partitions.pop(key, None) is not None:
                self.members += 1
                self.changes += 1

    def serve_last(self, partition: CachedPartition) -> None:
        """Next time, all others are served before it: a partition with many records must not starve them."""
        if self.partitions.pop(partition.key, None) is not None:
            self.partitions[partition.key] = partition
            self.changes += 1

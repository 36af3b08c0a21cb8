"""The leader epochs that this gateway sends to clients: those of the logs that actors have opened.

A log gets the next epoch whenever it is opened, and its actor informs all gateways then. Between two gateways a client
may see an epoch that is a moment older, as between two of Kafka's brokers; one gateway never goes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from muster.actors.wire.internal.leader_epochs import LeaderEpoch
from muster.placement.view import ClusterView

UNKNOWN = -1
"""No log of the partition was opened since this gateway started. Clients then do without the epoch (KIP-320)."""


class LeaderEpochs:
    """Follows the actors. For one event loop."""

    def __init__(self) -> None:
        self._newest: dict[UUID, dict[int, int]] = {}

    def of(self, topic_id: UUID, partition: int) -> int:
        """Return the newest epoch of the partition that is known, or :data:`UNKNOWN`."""
        return self._newest.get(topic_id, {}).get(partition, UNKNOWN)

    def heard(self, epochs: Iterable[LeaderEpoch]) -> None:
        """Take the epochs of an actor's open logs."""
        for topic_id, partition, epoch in epochs:
            of_topic = self._newest.setdefault(topic_id, {})
            of_topic[partition] = max(epoch, of_topic.get(partition, UNKNOWN))

    def follow(self, before: ClusterView, after: ClusterView) -> None:
        """Forget topics that a newer view lacks: an id is never used again."""
        if before.topics is not after.topics:
            gone = self._newest.keys() & {topic.topic_id for topic in before.topics.values()}
            for topic_id in gone - {topic.topic_id for topic in after.topics.values()}:
                del self._newest[topic_id]

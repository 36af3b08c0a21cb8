"""Errors by partition, in the order in which a Kafka broker answers them.

What the broker refuses itself comes first. What the coordinator answers is added to the topics that are there by
then, or stands as it came if there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from muster.actors.wire.codec import ErrorCode

TopicKey = tuple[str | None, UUID | None]
"""Name or, in the versions that have no names, id."""
Errors = Sequence[tuple[int, ErrorCode]]
"""(partition, error) in order; a partition that was asked for twice is answered twice."""


class PartitionErrors:
    """The topics of an OffsetCommit or OffsetDelete response."""

    def __init__(self) -> None:
        self._refused: dict[TopicKey, list[tuple[int, ErrorCode]]] = {}
        self._answered: list[tuple[TopicKey, Errors]] = []

    def refuse(self, topic: TopicKey, errors: Errors) -> None:
        """What the coordinator is not asked for; a topic without partitions is answered as such."""
        self._refused.setdefault(topic, []).extend(errors)

    def answer(self, topics: Iterable[tuple[TopicKey, Errors]]) -> None:
        """What the coordinator answered."""
        self._answered.extend(topics)

    def body(self) -> list[dict[str, Any]]:
        """As ``codec.encode_response`` takes it."""
        return [
            {
                "name": name,
                "topic_id": topic_id,
                "partitions": [{"partition_index": index, "error_code": error} for index, error in errors],
            }
            for (name, topic_id), errors in self._merged()
        ]

    def _merged(self) -> Iterable[tuple[TopicKey, Errors]]:
        if not self._refused:
            return self._answered
        merged = {topic: [*errors] for topic, errors in self._refused.items()}
        for topic, errors in self._answered:
            merged.setdefault(topic, []).extend(errors)
        return merged.items()

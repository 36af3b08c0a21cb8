"""Errors by partition, in the order in which a Kafka broker returns them.

What the broker itself refuses comes first. The coordinator's results are added to the topics that are present by then,
or stay as they came if there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from muster.actors.wire.kafka.codec import ErrorCode

TopicKey = tuple[str | None, UUID | None]
"""The name or, in versions without names, the id."""
Errors = Sequence[tuple[int, ErrorCode]]
"""(partition, error) in order; a partition that was requested twice occurs twice."""


class PartitionErrors:
    """The topics of an OffsetCommit or OffsetDelete response."""

    def __init__(self) -> None:
        self._refused: dict[TopicKey, list[tuple[int, ErrorCode]]] = {}
        self._answered: list[tuple[TopicKey, Errors]] = []

    def refuse(self, topic: TopicKey, errors: Errors) -> None:
        """Add errors of partitions that do not go to the coordinator; a topic without partitions is returned, too."""
        self._refused.setdefault(topic, []).extend(errors)

    def set_errors(self, topics: Iterable[tuple[TopicKey, Errors]]) -> None:
        """Add the coordinator's results."""
        self._answered.extend(topics)

    def body(self) -> list[dict[str, Any]]:
        """Return the body for ``codec.encode_response``."""
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

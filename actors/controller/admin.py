"""What gateways ask the controller to change, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from muster.placement.view import Topic


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int
    """-1: num.partitions."""
    replication_factor: int
    """-1: default.replication.factor."""
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of one topic, or of one resource with configs, of an administrative request."""

    name: str
    error: int
    """A Kafka error code; 0 when done (or when it would be, for validate_only)."""
    message: str | None = None
    topic: Topic | None = None

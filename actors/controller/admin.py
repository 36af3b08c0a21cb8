"""Changes that gateways request of the controller, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass

from muster.placement.security.acls import Acl
from muster.placement.security.entities import Entity
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
    """The outcome for one topic, or for one resource with configs, of an administrative request."""

    name: str
    error: int
    """A Kafka error code; 0 on success (with validate_only: if it would succeed)."""
    message: str | None = None
    topic: Topic | None = None


@dataclass(frozen=True, slots=True)
class EntityOutcome:
    """The outcome for one entity, of a change of its configs."""

    entity: Entity
    error: int
    """A Kafka error code; 0 on success."""
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AclOutcome:
    """The outcome for one ACL that had to be created or deleted."""

    acl: Acl
    error: int = 0
    """A Kafka error code; 0 on success."""
    message: str | None = None

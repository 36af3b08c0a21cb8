"""Rights that requests need, and the names of the resources that they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.admin import repeated
from muster.gateway.listener.api import Call
from muster.placement.security.acls import CLUSTER_NAME, AclOperation, AclResourceType

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    AclResourceType.TOPIC,
    AclResourceType.GROUP,
    AclResourceType.CLUSTER,
    AclResourceType.TRANSACTIONAL_ID,
)
ERRORS = {
    TOPIC: ErrorCode.topic_authorization_failed,
    GROUP: ErrorCode.group_authorization_failed,
    CLUSTER: ErrorCode.cluster_authorization_failed,
    TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}
MESSAGES = {
    ErrorCode.topic_authorization_failed: "Topic authorization failed.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
}
"""Kafka's own (``Errors``)."""

Names = Callable[[Call], Iterable[str]]
"""The resources that a request is about, of one type."""


class Right(NamedTuple):
    """An operation on resources of a type."""

    operation: AclOperation
    resource: AclResourceType

    def allowed(self, call: Call, name: str = CLUSTER_NAME, *, logged: bool = True) -> bool:
        """Whether the client has it for the resource of that name. ``logged``: see :meth:`Call.allows`."""
        name = CLUSTER_NAME if self.resource is CLUSTER else name
        return call.allows(self.operation, self.resource, name, logged=logged)

    def __str__(self) -> str:
        return f"{self.operation.name} {self.resource.name}"


def any_allowed(call: Call, rights: Sequence[Right], name: str) -> bool:
    """Whether the client has one of them; the last one is what a denial is logged about, as in Kafka."""
    return any(right.allowed(call, name, logged=right is rights[-1]) for right in rights)


READ_TOPIC = Right(AclOperation.READ, TOPIC)
WRITE_TOPIC = Right(AclOperation.WRITE, TOPIC)
CREATE_TOPIC = Right(AclOperation.CREATE, TOPIC)
DELETE_TOPIC = Right(AclOperation.DELETE, TOPIC)
ALTER_TOPIC = Right(AclOperation.ALTER, TOPIC)
DESCRIBE_TOPIC = Right(AclOperation.DESCRIBE, TOPIC)
DESCRIBE_TOPIC_CONFIGS = Right(AclOperation.DESCRIBE_CONFIGS, TOPIC)
READ_GROUP = Right(AclOperation.READ, GROUP)
DELETE_GROUP = Right(AclOperation.DELETE, GROUP)
DESCRIBE_GROUP = Right(AclOperation.DESCRIBE, GROUP)
WRITE_TRANSACTIONAL_ID = Right(AclOperation.WRITE, TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID = Right(AclOperation.DESCRIBE, TRANSACTIONAL_ID)
CREATE_CLUSTER = Right(AclOperation.CREATE, CLUSTER)
ALTER_CLUSTER = Right(AclOperation.ALTER, CLUSTER)
DESCRIBE_CLUSTER = Right(AclOperation.DESCRIBE, CLUSTER)
CLUSTER_ACTION = Right(AclOperation.CLUSTER_ACTION, CLUSTER)
DESCRIBE_CLUSTER_CONFIGS = Right(AclOperation.DESCRIBE_CONFIGS, CLUSTER)
ALTER_CLUSTER_CONFIGS = Right(AclOperation.ALTER_CONFIGS, CLUSTER)
IDEMPOTENT_WRITE = Right(AclOperation.IDEMPOTENT_WRITE, CLUSTER)


def the_cluster(call: Call) -> Iterable[str]:
    """Return the only resource of its type."""
    return (CLUSTER_NAME,)


def group_id(call: Call) -> Iterable[str]:
    """Return the group of the request."""
    return (call.entity().group_id,)


def transactional_id(call: Call) -> Iterable[str]:
    """Return the transactional id of the request, if it has one."""
    found: str | None = field(call.entity(), "transactional_id", None)
    return () if found is None else (found,)


def topic_name(call: Call, topic: Any) -> str | None:
    """Return the name of a topic that the request names by name or id; None for an id of no topic."""
    if isinstance(topic, str):
        return topic
    name: str | None = field(topic, "name", None) or field(topic, "topic", None)
    topic_id = field(topic, "topic_id", None)
    if name is not None or topic_id is None:
        return name or ""
    found = call.gateway.view.topic_by_id(topic_id)
    return None if found is None else found.name


def itself(call: Call, element: Any) -> str | None:
    """Return the name, where elements are names."""
    return str(element)


def repeated_names(elements: Sequence[Any]) -> Callable[[Any], bool]:
    """Whether an element's name occurs more than once: Kafka refuses such names before it judges any."""
    twice = repeated(element.name for element in elements)
    return lambda element: element.name in twice

"""Shared by DescribeAcls, CreateAcls and DeleteAcls: checks, entries, waiting until a change is in force.

Checks and messages are those of Kafka's AclApis and AclControlManager. What is different: each element with an unknown
type, operation or permission gets INVALID_REQUEST, where Kafka closes the connection; each creation with ANY, where
Kafka fails the whole request; and names that ZooKeeper cannot have, as from a Kafka with ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

from muster.actors.controller.admin import AclOutcome
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.admin import everywhere
from muster.gateway.security.authorization.authorizer import Authorizer
from muster.placement.security.acl_nodes import has_node
from muster.placement.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

if TYPE_CHECKING:
    from muster.gateway.listener.gateway import Gateway

E = TypeVar("E", bound=IntEnum)

LATE = "The controller did not answer in time."
_FOLLOWED_S = 1.0
"""How long a response waits until what was changed is in force on all gateways."""


class BadAcl(ValueError):
    """An ACL, or a filter, that gets INVALID_REQUEST. The message is for the client."""


def acl_of(creation: Any) -> Acl:
    """Return the ACL that has to be created. Raises BadAcl."""
    kind = _known(AclResourceType, creation.resource_type, RESOURCE_TYPES, "resourceType")
    style = _known(AclPatternType, creation.resource_pattern_type, PATTERN_TYPES, "patternType")
    operation = _known(AclOperation, creation.operation, OPERATIONS, "operation")
    permission = _known(AclPermission, creation.permission_type, PERMISSIONS, "permissionType")
    name, principal, host = creation.resource_name, creation.principal, creation.host
    if not name:
        raise BadAcl("Invalid empty resource name")
    if kind is AclResourceType.CLUSTER and name != CLUSTER_NAME:
        raise BadAcl(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if ":" not in principal:
        raise BadAcl(
            f"Could not parse principal from `{principal}` (no colon is present separating the principal type from the "
            "principal name)"
        )
    if not host:
        raise BadAcl("Host should not be empty; * is any host")
    if not has_node(name):
        raise BadAcl("ACLs of a resource with this name cannot be stored: ZooKeeper has no node of this name")
    return Acl(AclPattern(kind, name, style), principal, host, operation, permission)


def filter_of(request: Any) -> AclFilter:
    """Return the filter of DescribeAcls, or one of those of DeleteAcls. Raises BadAcl."""
    return AclFilter(
        _known(AclResourceType, request.resource_type_filter, (AclResourceType.ANY, *RESOURCE_TYPES), "resourceType"),
        request.resource_name_filter,
        _known(
            AclPatternType,
            request.pattern_type_filter,
            (AclPatternType.ANY, AclPatternType.MATCH, *PATTERN_TYPES),
            "patternType",
        ),
        request.principal_filter,
        request.host_filter,
        _known(AclOperation, request.operation, (AclOperation.ANY, *OPERATIONS), "operation"),
        _known(AclPermission, request.permission_type, (AclPermission.ANY, *PERMISSIONS), "permissionType"),
    )


def _known(kind: type[E], number: int, allowed: tuple[E, ...], what: str) -> E:
    """Return the member with that number. Raises BadAcl unless it is allowed."""
    if number in allowed:
        return kind(number)
    name = kind(number).name if number in set(kind) else str(number)
    raise BadAcl(f"Invalid {what} {name}")


def error_fields(outcome: AclOutcome) -> dict[str, Any]:
    """Error code and message of an outcome."""
    return {"error_code": ErrorCode(outcome.error), "error_message": outcome.message}


def pattern_fields(pattern: AclPattern) -> dict[str, Any]:
    """Return a pattern in a response."""
    kind, name, style = pattern
    return {"resource_type": int(kind), "resource_name": name, "pattern_type": int(style)}


def entry_fields(acl: Acl) -> dict[str, Any]:
    """Return an ACL in a response, without its pattern."""
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": int(acl.operation),
        "permission_type": int(acl.permission),
    }


async def until_in_force(gateway: Gateway, shows: Callable[[Authorizer], bool]) -> None:
    """Wait until all gateways decide by the changed ACLs, this one certainly (``shows``). Bounded."""
    await everywhere(gateway, _FOLLOWED_S)
    await gateway.until_view(lambda _: gateway.authorizer is None or shows(gateway.authorizer), _FOLLOWED_S)

"""The guard of requests about configs: their resources are of several types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from muster.actors.config.resources import ResourceType
from muster.actors.wire.codec import ErrorCode
from muster.gateway.apis.guards.guard import Each, Guard
from muster.gateway.apis.guards.rights import CLUSTER, ERRORS, GROUP, TOPIC, Right
from muster.gateway.listener.registry import Call, Rule
from muster.placement.security.acls import AclOperation

_OF_TYPE = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.BROKER: CLUSTER,
    ResourceType.BROKER_LOGGER: CLUSTER,
    ResourceType.CLIENT_METRICS: CLUSTER,
}


class _EachResource(Each):
    """Each resource; one of a type that does not exist is left to the handler."""

    def error_of(self, call: Call, element: Any, verdicts: dict[str, bool]) -> ErrorCode | None:
        resource = _OF_TYPE.get(element.resource_type)
        if resource is None or Right(self.rights[0].operation, resource).allowed(call, element.resource_name):
            return None
        return ERRORS[resource]

    def rules(self) -> Sequence[Rule]:
        return [Rule((right,), "", ERRORS[right.resource]) for right in self.rights]


def of_resources(operation: AclOperation, results: str, *, repeated_first: bool = False) -> Guard:
    """``repeated_first``: whether a resource that occurs twice is refused for that before it is judged."""
    rights = tuple(Right(operation, resource) for resource in (TOPIC, GROUP, CLUSTER))
    exempt = _repeated if repeated_first else None
    return Guard(each=_EachResource(rights, "resources", results, exempt=exempt))


def _repeated(resources: Sequence[Any]) -> Callable[[Any], bool]:
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    return lambda resource: times[resource.resource_type, resource.resource_name] > 1

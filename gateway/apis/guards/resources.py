"""The guard of requests about configs: their resources are of several types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from muster.actors.config.resources import ResourceType
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import Each, Guard
from muster.gateway.apis.guards.rights import CLUSTER, ERRORS, GROUP, TOPIC, Right
from muster.gateway.listener.api import Call, Rule
from muster.placement.security.acls import AclOperation

_OF_TYPE = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.BROKER: CLUSTER,
    ResourceType.BROKER_LOGGER: CLUSTER,
    ResourceType.CLIENT_METRICS: CLUSTER,
}


@dataclass(frozen=True, slots=True)
class _EachResource(Each):
    """Each resource; one of a type that does not exist is left to the handler."""

    is_of_cluster: Callable[[Call, Any], bool] | None = None
    """Whether the right on the cluster is needed as well."""
    of_cluster: str = ""
    """When it is, for the documentation."""

    def error_of(self, call: Call, element: Any, verdicts: dict[str, bool]) -> ErrorCode | None:
        resource = _OF_TYPE.get(element.resource_type)
        if resource is None:
            return None
        needed = [resource]
        if self.is_of_cluster is not None and self.is_of_cluster(call, element):
            needed.append(CLUSTER)
        operation = self.rights[0].operation
        refused = (each for each in needed if not Right(operation, each).allowed(call, element.resource_name))
        return next((ERRORS[each] for each in refused), None)

    def rules(self) -> Sequence[Rule]:
        found = [Rule((right,), "", ERRORS[right.resource]) for right in self.rights]
        if self.is_of_cluster is None:
            return found
        return [*found, Rule((self.rights[-1],), self.of_cluster, ERRORS[CLUSTER])]


def of_resources(
    operation: AclOperation,
    results: str,
    *,
    repeated_first: bool = False,
    is_of_cluster: Callable[[Call, Any], bool] | None = None,
    of_cluster: str = "",
) -> Guard:
    """``repeated_first``: whether a resource that occurs twice is refused for that before it is judged.

    ``is_of_cluster``: whether a resource needs the right on the cluster, too; ``of_cluster`` says when.
    """
    rights = tuple(Right(operation, resource) for resource in (TOPIC, GROUP, CLUSTER))
    each = _EachResource(
        rights,
        "resources",
        results,
        exempt=_repeated if repeated_first else None,
        is_of_cluster=is_of_cluster,
        of_cluster=of_cluster,
    )
    return Guard(each=each)


def _repeated(resources: Sequence[Any]) -> Callable[[Any], bool]:
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    return lambda resource: times[resource.resource_type, resource.resource_name] > 1

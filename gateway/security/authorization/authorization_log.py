"""The log of decisions about clients, in Kafka's words: Kafka's ``kafka.authorizer.logger``."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from muster.actors.runtime.terminal import printable
from muster.actors.wire.limited_log import LimitedLog
from muster.placement.security.acls import AclOperation, AclResourceType

_TEXT = (
    "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s with "
    "resourceRefCount = %d"
)
_MAX_CHARS = 300


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision, and the reason for it."""

    allowed: bool
    principal: str
    host: str
    operation: AclOperation
    resource: AclResourceType
    name: str
    api: str
    """The request, as in the protocol guide."""
    count: int
    """How often the request refers to the resource."""


class AuthorizationLog:
    """Writes what was denied, at INFO, and what was allowed, at DEBUG.

    A client that is denied the same operation again and again is counted, as are all others that clients can cause.
    """

    def __init__(self) -> None:
        self._logger = logging.getLogger("kafka.authorizer.logger")
        self._denied = LimitedLog(self._logger)

    @property
    def logs_allowed(self) -> bool:
        """Whether what was allowed is written."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def decided(self, decision: Decision) -> None:
        """Write it. For the event loop."""
        if not decision.allowed:
            kind = f"{decision.operation.name} {decision.resource.name}"
            self._denied.info(kind, printable(decision.principal[:_MAX_CHARS]), _TEXT, *_fields(decision))
        elif self._logger.isEnabledFor(logging.DEBUG):
            self._logger.debug(_TEXT, *_fields(decision))

    def flush(self) -> None:
        """Write what is counted."""
        self._denied.flush()


def _fields(decision: Decision) -> tuple[object, ...]:
    return (
        printable(decision.principal[:_MAX_CHARS]),
        "Allowed" if decision.allowed else "Denied",
        decision.operation.name,
        decision.host,
        decision.resource.kafka_name,
        printable(decision.name[:_MAX_CHARS]),
        decision.api,
        decision.count,
    )

"""Report of an actor once it serves."""

from __future__ import annotations

from dataclasses import dataclass

from muster.actors.runtime.process import wall_ms
from muster.placement.view import Broker, ConsoleAddress, Endpoint

_BEGAN_MS = wall_ms()


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Report of an actor about itself once it serves."""

    pid: int
    node_id: str
    endpoint: Endpoint | None = None
    """Its internal listener, if it has one."""
    broker: Broker | None = None
    """A gateway's Kafka listener."""
    metrics_url: str | None = None
    console: ConsoleAddress | None = None
    """Where the console's actor serves it."""
    epoch: int = -1
    """The epoch under which it serves a role: a leader epoch of ``__consumer_offsets``, an actor epoch; else -1."""
    began_ms: int = _BEGAN_MS
    """When its process began, by the clock of its node, in ms since the Unix epoch."""

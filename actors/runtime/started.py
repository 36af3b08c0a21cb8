"""What an actor reports once it serves."""

from __future__ import annotations

from dataclasses import dataclass

from muster.placement.view import Broker, Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What an actor reports about itself once it serves."""

    pid: int
    node_id: str
    endpoint: Endpoint | None = None
    """Its internal listener, if it has one."""
    broker: Broker | None = None
    """A gateway's Kafka listener."""
    metrics_url: str | None = None
    epoch: int = -1
    """The leader epoch under which it serves a partition of ``__consumer_offsets``; -1 if it serves none."""

"""A running Muster, or Kafka, as programs use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.gateway.client.kafka.brokers import Brokers, Coordinator

if TYPE_CHECKING:
    from muster.gateway.client.security import Security


@dataclass(frozen=True, slots=True)
class Cluster:
    """Addresses and login of a cluster. It pickles, and has no connection."""

    bootstrap: str
    """``HOST:PORT`` of each gateway, with commas, for ``bootstrap.servers``."""
    http: tuple[str, ...] = ()
    """Base URL of each gateway's HTTP API; empty if unknown, or of a real Kafka."""
    security: Security | None = None
    """Login and TLS; None: neither."""

    def brokers(self, client_id: str) -> Brokers:
        """Return a client of any broker, for internal use."""
        return Brokers(self.bootstrap, client_id, self.security)

    def coordinator(self, group: str, client_id: str) -> Coordinator:
        """Return a client of the group's coordinator, for internal use."""
        return Coordinator(self.bootstrap, group, client_id, self.security)

"""Requests of a command to any gateway, to one of them, or to the coordinator of a group, with ``--command-config``."""

from __future__ import annotations

from muster.gateway.cli.login import current_security
from muster.gateway.client.errors import NoResponse
from muster.gateway.client.kafka.brokers import RETRIABLE, TIMEOUT_S, Brokers, addresses, errors_in
from muster.gateway.client.kafka.brokers import Coordinator as AnyCoordinator

__all__ = ["RETRIABLE", "TIMEOUT_S", "Coordinator", "Gateways", "NoResponse", "addresses", "errors_in"]

_CLIENT_ID = "muster-cli"
_HINT = "; see muster status"


class Gateways(Brokers):
    """Any of these gateways, each of which serves every request. Use it in a ``with`` block, or close it."""

    def __init__(self, bootstrap: str) -> None:
        """Take ``bootstrap``, a list as Kafka clients have it. Raises InvalidClientConfig."""
        super().__init__(bootstrap, _CLIENT_ID, current_security())

    @property
    def name(self) -> str:
        return super().name.replace("broker", "gateway", 1)

    def _no_response(self, why: str, does: str = "does not respond") -> NoResponse:
        return NoResponse(self.name, why, does, _HINT)


class Coordinator(AnyCoordinator):
    """The coordinator of one group, wherever it is."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__(bootstrap, group, _CLIENT_ID, current_security())
        self.group = group

    def _no_response(self, why: str, does: str = "does not respond") -> NoResponse:
        return NoResponse(self.name, why, does, _HINT)

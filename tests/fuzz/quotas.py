"""Quotas for attackers: what an operator can do about clients that use a gateway up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.quotas.world import Entry, alter
from tests.gateway.serving import Client

ATTACKER = "127.0.0.2"
"""The address of the attackers where quotas limit them; the client that behaves has another."""
CANARY = "canary"
"""The client id of the client that behaves."""
_UNLIMITED = 1_000_000.0


class Quotas(NamedTuple):
    """None: no quota."""

    request_percentage: float | None
    """Quota of every user; the client that behaves has none."""
    connections_per_s: float | None
    """Quota of the attackers' address."""

    def entries(self) -> list[Entry]:
        every_user, address = ("user", None), ("ip", ATTACKER)
        entries: list[Entry] = []
        if self.request_percentage is not None:
            entries.append(([every_user], {"request_percentage": self.request_percentage}))
            entries.append(([every_user, ("client-id", CANARY)], {"request_percentage": _UNLIMITED}))
        if self.connections_per_s is not None:
            entries.append(([address], {"connection_creation_rate": self.connections_per_s}))
        return entries


@contextmanager
def quotas(host: str, port: int, wanted: Quotas) -> Iterator[None]:
    """Attackers have these quotas until the block ends."""
    entries = wanted.entries()
    _alter(host, port, entries)
    try:
        yield
    finally:
        with suppress(OSError):  # what is attacked has ended, which is reported elsewhere
            _alter(host, port, [(parts, dict.fromkeys(values)) for parts, values in entries])


def _alter(host: str, port: int, entries: list[Entry]) -> None:
    if entries:
        with Client(port, host=host) as client:
            assert {each.error_code for each in alter(client, *entries)} == {ErrorCode.none}

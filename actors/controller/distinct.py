"""Gateways with distinct addresses: clients could not tell apart two that advertise the same one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.actors.config.listeners import same_address
from muster.placement.view import Broker


def distinct(brokers: Iterable[Broker]) -> tuple[tuple[Broker, ...], Mapping[int, str]]:
    """Divide into brokers by id, and errors by id: a broker before them advertises their address."""
    found: list[Broker] = []
    left_out: dict[int, str] = {}
    owner: dict[tuple[str, int], int] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        taken = next((address for address in broker.addresses if address in owner), None)
        if taken is not None:
            left_out[broker.id] = same_address(broker.id, owner[taken], taken)
            continue
        found.append(broker)
        owner |= dict.fromkeys(broker.addresses, broker.id)
    return tuple(found), left_out

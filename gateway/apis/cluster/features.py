"""The features of Kafka that clients may rely on, and their levels (KIP-584)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from muster.gateway.listener.gateway import Gateway


class Feature(NamedTuple):
    """A feature of Kafka's, its levels, and which of them is finalized; 0: none."""

    lowest: int
    highest: int
    level: Callable[[Gateway], int]
    decided_by: str
    """Advice for clients that want another level."""


FEATURES: Mapping[str, Feature] = {
    "group.version": Feature(0, 1, lambda _: 1, "consumer groups are always there"),
    "transaction.version": Feature(
        0,
        2,
        lambda gateway: gateway.config.transaction_version,
        "the property transaction.version, which is read at the start",
    ),
}

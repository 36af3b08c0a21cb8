"""Which metrics a client pushes, and how often: by all subscriptions that match it (Kafka's ClientMetricsManager)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from re import Pattern
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from muster.actors.config.client_metrics import (
    ALL_METRICS,
    DEFAULT_INTERVAL_MS,
    INTERVAL_MS,
    MATCH,
    METRICS,
    InvalidSubscription,
    patterns,
)


class Client(NamedTuple):
    """Labels of a client for subscriptions: the names are those of their patterns."""

    client_instance_id: UUID
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: int


class Subscription(NamedTuple):
    """A resource of type CLIENT_METRICS."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Pattern[str]]

    def matches(self, client: Client) -> bool:
        """Whether every pattern matches the whole of what it is about."""
        return all(pattern.fullmatch(str(getattr(client, name))) for name, pattern in self.match.items())


class Wanted(NamedTuple):
    """Metrics that one client pushes. Without any, it requests them again after the interval."""

    subscription_id: int
    """Equal on every gateway; another one if anything else here changes."""
    metrics: tuple[str, ...]
    interval_ms: int


def subscriptions_of(configs: Mapping[str, Mapping[str, str]]) -> list[Subscription]:
    """Return the subscriptions, by name, of their configs. Those that cannot be read are left out."""
    found = []
    for _, config in sorted(configs.items()):
        names = tuple(name for part in config.get(METRICS, "").split(",") if (name := part.strip()))
        try:
            interval_ms = int(config.get(INTERVAL_MS, DEFAULT_INTERVAL_MS))
            found.append(Subscription(names, interval_ms, patterns(config.get(MATCH, ""))))
        except (InvalidSubscription, ValueError):
            continue
    return found


def wanted_of(client: Client, subscriptions: Iterable[Subscription]) -> Wanted:
    """Return the metrics that the client pushes."""
    matching = [each for each in subscriptions if each.matches(client)]
    metrics = sorted({name for each in matching for name in each.metrics})
    if ALL_METRICS in metrics:
        metrics = [ALL_METRICS]
    interval_ms = min([each.interval_ms for each in matching], default=DEFAULT_INTERVAL_MS)
    return Wanted(_subscription_id(metrics, interval_ms, client.client_instance_id), tuple(metrics), interval_ms)


def _subscription_id(metrics: Iterable[str], interval_ms: int, instance: UUID) -> int:
    """Return an int32 of both, so that a client of another instance never continues with it."""
    number = crc32(repr((*metrics, interval_ms)).encode(), crc32(instance.bytes))
    return number - (1 << 32) if number >= 1 << 31 else number

"""What a scrape says of fetched bytes and messages.

All of one snapshot of the books, so in each scrape, exactly, for every topic and partition::

    muster_fetch_bytes_total == sum(muster_group_fetch_bytes_total) + sum(muster_unattributed_fetch_bytes_total)
                                + muster_pending_fetch_bytes + muster_removed_group_fetch_bytes

(the same for messages). The counters hold what is settled and never go down. Pending bytes are a gauge because they
leave it, for a group or for a reason, when evidence came or the time for it is over: to get the share of a group
without a dip at the right edge, allow for the wait (60 s). What series had that are gone is a gauge, and no counter,
since it jumps when they go: nothing is fetched at that moment, so ``rate()`` must not see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from muster.gateway.attribution.account import Snapshot
from muster.gateway.attribution.series import Place, group_label

OVERFLOW = "overflow"
"""The reason of bytes whose group is known and has no series; no group can collide with a reason."""

_UNITS = (("bytes", "Bytes of record batches"), ("messages", "Records"))
_PLACE = ("topic", "partition")


class Amounts(Protocol):
    """A Total or an Amount."""

    @property
    def bytes(self) -> int: ...
    @property
    def messages(self) -> int: ...


def fetch_families(gateway: str, books: Snapshot) -> Iterator[Metric]:
    """The families of the equation above, and how many series the bound keeps out."""
    for unit, what in _UNITS:
        yield _counter(
            f"fetch_{unit}", f"{what} handed to sockets in Fetch answers.", gateway, _places(books.sent.items()), unit
        )
        yield _of_groups(gateway, books, unit, what)
        yield _without_group(gateway, books, unit, what)
        yield _gauge(
            f"pending_fetch_{unit}",
            f"{what} sent that still wait for evidence of their group.",
            gateway,
            _places(books.pending.items()),
            unit,
        )
        yield _gauge(
            f"removed_group_fetch_{unit}",
            f"{what} that were counted in series of groups that are gone (metrics.group.series.retention.ms).",
            gateway,
            _places(books.removed.items()),
            unit,
        )
    folded = GaugeMetricFamily(
        "muster_folded_group_series",
        "Series of group, topic, partition and evidence that metrics.max.group.series keeps out, counted up to that "
        "number; their bytes have the reason overflow.",
        labels=("gateway",),
    )
    folded.add_metric((gateway,), books.folded)
    yield folded


def _of_groups(gateway: str, books: Snapshot, unit: str, what: str) -> Metric:
    family = CounterMetricFamily(
        f"muster_group_fetch_{unit}",
        f"{what} fetched by a consumer group; evidence tells how the group is known.",
        labels=("gateway", "group", *_PLACE, "evidence"),
    )
    for (group, evidence, topic, partition), total in books.groups.items():
        labels = (gateway, group_label(group), topic, str(partition), evidence.value)
        family.add_metric(labels, getattr(total, unit), created=total.since_ms / 1000)
    return family


def _without_group(gateway: str, books: Snapshot, unit: str, what: str) -> Metric:
    family = CounterMetricFamily(
        f"muster_unattributed_fetch_{unit}",
        f"{what} fetched by nobody that could be named, or (overflow) by a group without a series; reason tells why.",
        labels=("gateway", "reason", *_PLACE),
    )
    for (reason, topic, partition), total in books.reasons.items():
        family.add_metric((gateway, reason.value, topic, str(partition)), getattr(total, unit))
    for (topic, partition), total in books.overflow.items():
        family.add_metric((gateway, OVERFLOW, topic, str(partition)), getattr(total, unit))
    return family


def _places(amounts: Iterable[tuple[Place, Amounts]]) -> Iterator[tuple[tuple[str, str], Amounts]]:
    return (((topic, str(partition)), amount) for (topic, partition), amount in amounts)


def _counter(
    name: str, help_text: str, gateway: str, amounts: Iterable[tuple[tuple[str, str], Amounts]], unit: str
) -> Metric:
    family = CounterMetricFamily(f"muster_{name}", help_text, labels=("gateway", *_PLACE))
    for labels, amount in amounts:
        family.add_metric((gateway, *labels), getattr(amount, unit))
    return family


def _gauge(
    name: str, help_text: str, gateway: str, amounts: Iterable[tuple[tuple[str, str], Amounts]], unit: str
) -> Metric:
    family = GaugeMetricFamily(f"muster_{name}", help_text, labels=("gateway", *_PLACE))
    for labels, amount in amounts:
        family.add_metric((gateway, *labels), getattr(amount, unit))
    return family

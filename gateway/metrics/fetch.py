"""Fetched bytes and messages in a scrape.

All values are of one snapshot of the account, so in each scrape, exactly, for every topic and partition::

    muster_fetch_bytes_total == sum(muster_group_fetch_bytes_total) + sum(muster_unattributed_fetch_bytes_total)
                                + muster_pending_fetch_bytes + muster_removed_group_fetch_bytes

(the same for messages). The counters hold what is settled and never decrease. Pending bytes are a gauge because they
leave it, for a group or for a reason, when evidence arrives or the time for it is over: to get the share of a group
without a dip at the right edge, allow for the wait (60 s). The totals of removed series are a gauge, not a counter,
since they jump when series are removed: nothing is fetched at that moment, so ``rate()`` must not see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from muster.gateway.attribution.account import Snapshot
from muster.gateway.attribution.series import Place, group_label
from muster.gateway.metrics.exposition import Exposition, labels
from muster.gateway.metrics.families import FETCH

OVERFLOW = "overflow"
"""The reason of bytes whose group is known and has no series; no group can collide with a reason."""


class Amounts(Protocol):
    """A Total or an Amount."""

    @property
    def bytes(self) -> int: ...
    @property
    def messages(self) -> int: ...


def write_fetch(out: Exposition, books: Snapshot) -> None:
    """Write the families of the equation above, and the number of series that the limit excludes."""
    out.begin(FETCH)
    _write_places(out, "muster_fetch_{}_total", books.sent)
    _write_places(out, "muster_pending_fetch_{}", books.pending)
    _write_places(out, "muster_removed_group_fetch_{}", books.removed)
    for (group, evidence, topic, partition), total in books.groups.items():
        series = labels(group=group_label(group), topic=topic, partition=partition, evidence=evidence.value)
        for name, amount in (
            ("muster_group_fetch_bytes_total", total.bytes),
            ("muster_group_fetch_messages_total", total.messages),
        ):
            out.add(name, series, amount)
            out.created(name, series, total.since_ms)
    for (reason, topic, partition), total in books.reasons.items():
        _write_unattributed(out, reason.value, topic, partition, total)
    for (topic, partition), total in books.overflow.items():
        _write_unattributed(out, OVERFLOW, topic, partition, total)
    out.add("muster_folded_group_series", "", books.folded)


def _write_unattributed(out: Exposition, reason: str, topic: str, partition: int, total: Amounts) -> None:
    series = labels(reason=reason, topic=topic, partition=partition)
    out.add("muster_unattributed_fetch_bytes_total", series, total.bytes)
    out.add("muster_unattributed_fetch_messages_total", series, total.messages)


def _write_places(out: Exposition, name: str, amounts: Mapping[Place, Amounts]) -> None:
    for (topic, partition), amount in amounts.items():
        series = labels(topic=topic, partition=partition)
        out.add(name.format("bytes"), series, amount.bytes)
        out.add(name.format("messages"), series, amount.messages)

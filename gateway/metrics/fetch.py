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

from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol

from muster.gateway.attribution.account import Snapshot
from muster.gateway.attribution.series import Place, Total, group_label
from muster.gateway.metrics.exposition import Exposition, labels
from muster.gateway.metrics.families import FETCH, KOP

OVERFLOW = "overflow"
"""The reason of bytes whose group is known and has no series; no group can collide with a reason."""


_UNKNOWN = ""


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
    for (principal, topic), total in books.principals.items():
        series = labels(principal=principal, topic=topic)
        for name, amount in (
            ("muster_principal_fetch_bytes_total", total.bytes),
            ("muster_principal_fetch_messages_total", total.messages),
        ):
            out.add(name, series, amount)
            out.created(name, series, total.since_ms)
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


def write_kop(out: Exposition, cluster: str, books: Snapshot) -> None:
    """Write KoP's names for what consumers fetch, so that its dashboards still work. ``cluster`` is a label.

    ``kop_server_BYTES_OUT``, ``kop_server_MESSAGE_OUT`` and ``kop_server_ENTRIES_OUT`` with the labels ``cluster``,
    ``group``, ``partition``, ``topic``, as in KoP's ``KopServerStats`` (``metrics.kop.compatible``). Ours differ as
    follows:

    * ``group=""`` is everything without a group here, for any reason, and groups without a series of their own. Bytes
      that wait for evidence are exposed once they are settled: a counter must not move bytes from "" to a group.
    * ENTRIES are Pulsar's; a KoP with ``entryFormat=kafka`` makes one of each record batch that a producer sends, so
      record batches are counted.
    * They are counted when they are sent, not when they are decoded.
    * In Prometheus' text format they are ``untyped``: its Python client gives each counter the suffix ``_total``, which
      they do not have.
    """
    out.begin(KOP, labels(cluster=cluster).removeprefix(","))
    for (group, (topic, partition)), totals in _by_group(books).items():
        series = labels(group=group, partition=partition, topic=topic)
        out.add("kop_server_BYTES_OUT", series, sum(total.bytes for total in totals))
        out.add("kop_server_MESSAGE_OUT", series, sum(total.messages for total in totals))
        out.add("kop_server_ENTRIES_OUT", series, sum(total.entries for total in totals))


def _by_group(books: Snapshot) -> dict[tuple[str, Place], list[Total]]:
    found: dict[tuple[str, Place], list[Total]] = defaultdict(list)
    for (group, _, topic, partition), total in books.groups.items():
        found[group_label(group), (topic, partition)].append(total)
    for (_, topic, partition), total in books.reasons.items():
        found[_UNKNOWN, (topic, partition)].append(total)
    for place, total in books.overflow.items():
        found[_UNKNOWN, place].append(total)
    return found

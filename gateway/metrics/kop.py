"""KoP's names of what consumers fetch, beside our own, so that its dashboards go on (``metrics.kop.compatible``).

``kop_server_BYTES_OUT``, ``kop_server_MESSAGE_OUT`` and ``kop_server_ENTRIES_OUT`` with the labels ``cluster``,
``group``, ``partition``, ``topic``, as KoP's ``KopServerStats`` has them. Where ours differ:

* ``group=""`` is whatever has no group here, for any reason, and groups without a series of their own. Bytes that wait
  for evidence are told when they are settled: a counter must not take back what it had under "".
* ENTRIES are Pulsar's; a KoP with ``entryFormat=kafka`` makes one of each record batch that a producer sends, and so
  record batches are what is counted.
* They are counted when they are sent, not when they are decoded.
* Prometheus' text format has them as ``untyped``: its Python client gives each counter the suffix ``_total``, which
  they do not have.
"""

from __future__ import annotations

from collections import defaultdict

from muster.gateway.attribution.account import Snapshot
from muster.gateway.attribution.series import Place, Total, group_label
from muster.gateway.metrics.exposition import Exposition, labels
from muster.gateway.metrics.families import KOP

_UNKNOWN = ""


def write_kop(out: Exposition, cluster: str, books: Snapshot) -> None:
    """The three families; ``cluster`` is the label of that name."""
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

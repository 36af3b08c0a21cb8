"""KoP's names for what consumers fetch, beside our own, so that its dashboards still work (``metrics.kop.compatible``).

``kop_server_BYTES_OUT``, ``kop_server_MESSAGE_OUT`` and ``kop_server_ENTRIES_OUT`` with the labels ``cluster``,
``group``, ``partition``, ``topic``, as in KoP's ``KopServerStats``. Ours differ as follows:

* ``group=""`` is everything without a group here, for any reason, and groups without a series of their own. Bytes that
  wait for evidence are exposed once they are settled: a counter must not move bytes from "" to a group.
* ENTRIES are Pulsar's; a KoP with ``entryFormat=kafka`` makes one of each record batch that a producer sends, so
  record batches are counted.
* They are counted when they are sent, not when they are decoded.
* In Prometheus' text format they are ``untyped``: its Python client gives each counter the suffix ``_total``, which
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
    """Write the three families; ``cluster`` is the label of that name."""
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

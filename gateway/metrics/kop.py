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
from collections.abc import Iterator

from prometheus_client.core import Metric, UntypedMetricFamily

from muster.gateway.attribution.account import Snapshot
from muster.gateway.attribution.series import Place, Total, group_label

LABELS = ("cluster", "group", "partition", "topic")
_FAMILIES = (
    ("BYTES_OUT", "bytes", "Bytes of record batches that were fetched."),
    ("MESSAGE_OUT", "messages", "Records that were fetched."),
    ("ENTRIES_OUT", "entries", "Record batches that were fetched."),
)
_UNKNOWN = ""


def kop_families(cluster: str, books: Snapshot) -> Iterator[Metric]:
    """The three families; ``cluster`` is the label of that name."""
    amounts = _by_group(books)
    for name, unit, what in _FAMILIES:
        family = UntypedMetricFamily(
            f"kop_server_{name}", f'{what} A counter; group="" when the group is not known.', labels=LABELS
        )
        for (group, (topic, partition)), totals in amounts.items():
            family.add_metric((cluster, group, str(partition), topic), sum(getattr(total, unit) for total in totals))
        yield family


def _by_group(books: Snapshot) -> dict[tuple[str, Place], list[Total]]:
    found: dict[tuple[str, Place], list[Total]] = defaultdict(list)
    for (group, _, topic, partition), total in books.groups.items():
        found[group_label(group), (topic, partition)].append(total)
    for (_, topic, partition), total in books.reasons.items():
        found[_UNKNOWN, (topic, partition)].append(total)
    for place, total in books.overflow.items():
        found[_UNKNOWN, place].append(total)
    return found

"""What a scrape says of the audit: the last report of the reconciler's process, which every gateway is told.

As with the other metrics of groups, each group is told of by one gateway, the one that FindCoordinator names for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.actors.audit.report import Report, Row
from muster.gateway.attribution.series import group_label
from muster.gateway.listener.gateway import Gateway
from muster.gateway.metrics.gateway import label_value
from muster.gateway.metrics.groups import Family, escaped, told_here

_PARTITION = ("group", "topic", "partition")
_LIFE = "Since the audit's process began to watch the group's partition."

IMPLIED = Family(
    "muster_audit_implied_bytes",
    "counter",
    _PARTITION,
    f"Bytes of the batches that the group's commits went past, each once. {_LIFE}",
)
ATTRIBUTED = Family(
    "muster_audit_attributed_bytes",
    "counter",
    _PARTITION,
    f"Bytes that gateways sent for the group, as the audit heard of them, when their attribution was final. {_LIFE}",
)
DRIFT = Family(
    "muster_audit_drift_bytes",
    "gauge",
    (*_PARTITION, "cause"),
    "Why these two differ: attributed - implied = prefetch + reread + retention - (waiting + unknown + admin_commit + "
    "reset + mislabelled + lost). lost and mislabelled are unexplained; a cause is absent while it is 0.",
)
REMOVED = Family(
    "muster_audit_removed_offsets",
    "counter",
    _PARTITION,
    f"Offsets that the group's commits went past unread, and that were gone from the log by then. {_LIFE}",
)
ROUNDS = Family("muster_audit_rounds", "counter", (), "Rounds of the audit, since its process started.")
INCOMPLETE = Family(
    "muster_audit_incomplete_rounds",
    "counter",
    (),
    "Those in which not every gateway was heard, so that nothing new was judged.",
)
LEFT_OUT = Family(
    "muster_audit_partitions_left_out",
    "gauge",
    (),
    "Groups' partitions that are in the report and not here, beyond metrics.max.group.series.",
)
FAMILIES = (IMPLIED, ATTRIBUTED, DRIFT, REMOVED, ROUNDS, INCOMPLETE, LEFT_OUT)


def audit_text(gateway: Gateway, *, openmetrics: bool) -> bytes:
    """All families, without the end mark; empty before the first round. Long with many groups: for a thread."""
    report = gateway.audit_report
    if report.at_ms is None:
        return b""
    here = frozenset(told_here(gateway.view, gateway.id))
    own = [row for row in report.rows if gateway.partition_of(row.group) in here]
    own.sort(key=lambda row: -row.unexplained_bytes)
    most = gateway.config.metrics_max_group_series
    return _text(gateway.id, report, own[:most], len(own[most:]), openmetrics)


def _text(gateway: int, report: Report, rows: Iterable[Row], left_out: int, openmetrics: bool) -> bytes:
    here = f'gateway="{gateway}"'
    lines: dict[str, list[str]] = {
        ROUNDS.name: [f"{ROUNDS.sample}{{{here}}} {report.rounds}\n"],
        INCOMPLETE.name: [f"{INCOMPLETE.sample}{{{here}}} {report.incomplete_rounds}\n"],
        LEFT_OUT.name: [f"{LEFT_OUT.sample}{{{here}}} {left_out}\n"],
    }

    def add(family: Family, labels: str, value: int) -> None:
        lines.setdefault(family.name, []).append(f"{family.sample}{{{labels}}} {value}\n")

    for row in rows:
        group, topic = escaped(group_label(row.group)), escaped(label_value(row.topic))
        labels = f'{here},group="{group}",topic="{topic}",partition="{row.partition}"'
        add(IMPLIED, labels, row.implied_bytes)
        add(ATTRIBUTED, labels, row.attributed_bytes)
        for cause, size in row.drift_bytes.items():
            add(DRIFT, f'{labels},cause="{cause.value}"', size)
        if row.removed_offsets:
            add(REMOVED, labels, row.removed_offsets)
    return "".join(family.head(openmetrics) + "".join(lines.get(family.name, ())) for family in FAMILIES).encode()

"""The audit in a scrape: the latest report of the reconciler's process, which is sent to every gateway.

As with the other metrics of groups, one gateway reports each group: the one that FindCoordinator returns for it.
"""

from __future__ import annotations

from muster.gateway.attribution.series import group_label
from muster.gateway.listener.gateway import Gateway
from muster.gateway.metrics.exposition import Exposition, labels
from muster.gateway.metrics.families import AUDIT
from muster.gateway.metrics.groups import exposed_here


def write_audit(out: Exposition, gateway: Gateway) -> None:
    """Write all families, or none before the first round. Slow with many groups: for a thread."""
    report = gateway.audit_report
    if report.at_ms is None:
        return
    here = frozenset(exposed_here(gateway.view, gateway.id))
    own = [row for row in report.rows if gateway.partition_of(row.group) in here]
    own.sort(key=lambda row: -row.unexplained_bytes)
    most = gateway.config.metrics_max_group_series
    out.begin(AUDIT)
    out.add("muster_audit_rounds_total", "", report.rounds)
    out.add("muster_audit_incomplete_rounds_total", "", report.incomplete_rounds)
    out.add("muster_audit_partitions_left_out", "", len(own[most:]))
    for row in own[:most]:
        series = labels(group=group_label(row.group), topic=row.topic, partition=row.partition)
        out.add("muster_audit_implied_bytes_total", series, row.implied_bytes)
        out.add("muster_audit_attributed_bytes_total", series, row.attributed_bytes)
        for cause, size in row.drift_bytes.items():
            out.add("muster_audit_drift_bytes", f'{series},cause="{cause.value}"', size)
        if row.removed_offsets:
            out.add("muster_audit_removed_offsets_total", series, row.removed_offsets)

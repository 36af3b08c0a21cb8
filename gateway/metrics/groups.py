"""The consumer groups in a scrape, as returned by the offsets actors while it runs.

One gateway reports each offsets partition: the one that FindCoordinator returns for it. So over all gateways, every
group has its series once (for a moment twice or not at all while a new view spreads).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from muster.actors.group.consumer.state import ConsumerGroupState
from muster.actors.group.state import GroupState
from muster.actors.offsets.metrics import REBALANCE_BUCKETS_MS, GroupRow, Snapshot
from muster.gateway.attribution.series import group_label
from muster.gateway.listener.gateway import Gateway
from muster.gateway.listener.queries import query_coordinators, query_logs
from muster.gateway.metrics.exposition import Exposition, labels
from muster.gateway.metrics.families import GROUPS
from muster.placement.view import OFFSETS, UNDO_PREFIX, ClusterView

log = logging.getLogger(__name__)

DEADLINE_S = 1.0
"""For all actors together; those that have not responded by then are left out."""

STATES = tuple(
    dict.fromkeys(state.value for state in (*GroupState, *ConsumerGroupState) if state is not GroupState.DEAD)
)
"""The states of groups that exist."""

_OF_GROUP: dict[str, Callable[[GroupRow], float | None]] = {
    "muster_group_members": lambda row: row.members,
    "muster_group_pending_members": lambda row: row.pending_members,
    "muster_group_generation": lambda row: row.generation,
    "muster_group_assigned_partitions": lambda row: row.assigned_partitions,
    "muster_group_offsets": lambda row: row.offsets,
    "muster_group_rebalance_running_seconds": lambda row: _seconds(row.rebalancing_ms),
    "muster_group_rebalances_completed_total": lambda row: row.rebalances_completed,
    "muster_group_joins_total": lambda row: row.joins,
    "muster_group_syncs_total": lambda row: row.syncs,
    "muster_group_leaves_total": lambda row: row.leaves,
    "muster_group_offset_commits_total": lambda row: row.offset_commits,
    "muster_group_offset_expirations_total": lambda row: row.offset_expirations,
    "muster_group_offset_deletions_total": lambda row: row.offset_deletions,
}
"""Series that are one number of a row; None: no series."""

_BOUNDS = (*(repr(bound / 1000) for bound in REBALANCE_BUCKETS_MS), "+Inf")


def exposed_here(view: ClusterView, gateway_id: int, kind: str = OFFSETS) -> list[int]:
    """Return the coordinators' partitions of that kind that were ever started, and that this gateway reports."""
    coordinators = {partition: view.coordinator_of(partition, kind) for partition in view.owners(kind)}
    return sorted(partition for partition, broker in coordinators.items() if broker and broker.id == gateway_id)


@dataclass(frozen=True, slots=True)
class Scrape:
    """Responses of one gateway's coordinators."""

    gateway: int
    snapshots: tuple[Snapshot, ...]
    active: int
    loading: int
    """Partitions of this gateway without a serving actor."""
    corrupt_segments: Mapping[int, int] = field(default_factory=dict)
    """By log actor, of those that this gateway reports."""

    def write(self, out: Exposition) -> None:
        """Write all families. Slow with many groups: for a thread."""
        out.begin(GROUPS)
        out.add("muster_coordinator_partitions", labels(state="active"), self.active)
        out.add("muster_coordinator_partitions", labels(state="loading"), self.loading)
        for index, count in self.corrupt_segments.items():
            out.add("muster_log_corrupt_segments", labels(log=index), count)
        for snapshot in self.snapshots:
            _write_partition(out, snapshot)


async def scrape(gateway: Gateway) -> Scrape:
    """Query the actors, for DEADLINE_S at most. Those that do not respond are counted in the gateway's metrics."""
    view = gateway.view
    here = exposed_here(view, gateway.id)
    up = [partition for partition in here if view.offsets[partition] is not None]
    (responses, missing), corrupt = await asyncio.gather(
        query_coordinators(gateway, {"ask": "metrics"}, DEADLINE_S, up), _corrupt_segments(gateway)
    )
    snapshots: list[Snapshot] = []
    for partition, response in responses.items():
        try:
            snapshots.append(Snapshot.from_response(response))
        except (KeyError, TypeError) as error:
            log.error("offsets-%d says what this gateway cannot read: %r", partition, error)
            missing.append(partition)
    for partition in missing:
        gateway.metrics.group_scrape_error(f"offsets-{partition}")
    return Scrape(gateway.id, tuple(snapshots), active=len(up), loading=len(here) - len(up), corrupt_segments=corrupt)


async def _corrupt_segments(gateway: Gateway) -> dict[int, int]:
    """Return the counts of this gateway's log actors; late ones are left out. Each log actor has one gateway."""
    gateways = sorted(broker.id for broker in gateway.view.brokers)
    logs = sorted(gateway.view.logs)
    here = [index for index in logs if gateways and gateways[index % len(gateways)] == gateway.id]
    responses = await query_logs(gateway, {"ask": "log_health"}, DEADLINE_S, here)
    return {index: int(response.get("corrupt_segments", 0)) for index, response in responses.items()}


def _write_partition(out: Exposition, snapshot: Snapshot) -> None:
    states: Counter[str] = Counter(dict.fromkeys(STATES, 0))
    offsets = 0
    for row in snapshot.rows():
        offsets += row.offsets
        if row.group.startswith(UNDO_PREFIX):
            continue
        states[row.state] += 1
        _write_group(out, row, snapshot.epoch)
    here = labels(offsets_partition=snapshot.partition)
    for state, groups in states.items():
        out.add("muster_coordinator_groups", f'{here},state="{state}"', groups)
    out.add("muster_coordinator_offsets", here, offsets)
    out.add("muster_coordinator_load_seconds", here, snapshot.load_ms / 1000)
    name, counts = "muster_coordinator_rebalance_duration_seconds", list(accumulate(snapshot.rebalance_buckets))
    for bound, count in zip(_BOUNDS, counts, strict=True):
        out.add(name, f'{here},le="{bound}"', count, suffix="_bucket")
    out.add(name, here, counts[-1], suffix="_count")
    out.add(name, here, snapshot.rebalances_ms / 1000, suffix="_sum")


def _write_group(out: Exposition, row: GroupRow, epoch: int) -> None:
    group = labels(group=group_label(row.group))
    for state in STATES:
        out.add("muster_group_state", f'{group},state="{state}"', int(state == row.state))
    for name, read in _OF_GROUP.items():
        value = read(row)
        if value is not None:
            out.add(name, group, value)
    for cause, count in row.rebalances_started.items():
        out.add("muster_group_rebalances_started_total", f'{group},cause="{cause}"', count)
    for cause, count in row.expiries.items():
        out.add("muster_group_member_expiries_total", f'{group},cause="{cause}"', count)
    out.add("muster_group_rebalance_duration_seconds", group, row.rebalances_completed, suffix="_count")
    out.add("muster_group_rebalance_duration_seconds", group, row.rebalances_ms / 1000, suffix="_sum")
    out.add("muster_group_coordinator_moves_total", group, epoch)


def _seconds(duration_ms: int | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1000

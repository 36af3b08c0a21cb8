"""What a scrape says of the consumer groups, asked of the offsets actors while it runs.

Each offsets partition is told of by one gateway, the one that FindCoordinator names for it, so that over all gateways
every group has its series once (for a moment twice or not at all while a new view spreads). The text is written here,
not by prometheus_client, which with 10,000 groups takes several times as long and holds every sample as an object.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from muster.actors.group.state import GroupState
from muster.actors.offsets.metrics import REBALANCE_BUCKETS_MS, GroupRow, Snapshot
from muster.gateway.attribution.series import group_label
from muster.gateway.listener.gateway import Gateway
from muster.gateway.listener.questions import ask_all, ask_logs
from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

DEADLINE_S = 1.0
"""For all actors together; who has not answered by then is left out."""

STATES = tuple(state.value for state in GroupState if state is not GroupState.DEAD)
"""Of groups that exist."""

_COORDINATOR = "kafka.server:type=group-coordinator-metrics,name="
_MANAGER = "kafka.coordinator.group:type=GroupMetadataManager,name="
_REQUESTS = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request="
_LIFE = "Since the coordinator's actor started."


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family; every series has ``gateway`` besides its labels."""

    name: str
    """Without the suffix of a counter."""
    kind: str
    """Prometheus' and OpenMetrics' word."""
    labels: tuple[str, ...]
    help: str

    @property
    def sample(self) -> str:
        """Name of a counter's or a gauge's series."""
        return f"{self.name}_total" if self.kind == "counter" else self.name

    def head(self, openmetrics: bool) -> str:
        """The lines that introduce it. Only OpenMetrics names a counter without its suffix."""
        name = self.name if openmetrics else self.sample
        return f"# HELP {name} {self.help}\n# TYPE {name} {self.kind}\n"


Read = Callable[[GroupRow], float | None]


def _gauge(name: str, help_text: str, read: Read) -> tuple[Family, Read]:
    return Family(f"muster_group_{name}", "gauge", ("group",), help_text), read


def _counter(name: str, help_text: str, read: Read, *, kafka: str = "") -> tuple[Family, Read]:
    told = f" Kafka: {kafka}." if kafka else ""
    return Family(f"muster_group_{name}", "counter", ("group",), f"{help_text} {_LIFE}{told}"), read


def _seconds(duration_ms: int | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1000


OF_GROUP: tuple[tuple[Family, Read], ...] = (
    _gauge("members", "Members of the group.", lambda row: row.members),
    _gauge(
        "pending_members",
        "Member ids handed out to new members that have not joined with them yet (KIP-394).",
        lambda row: row.pending_members,
    ),
    _gauge("generation", "The group's generation id.", lambda row: row.generation),
    _gauge(
        "assigned_partitions",
        "Partitions assigned to the members; during a rebalance, those they had before it. "
        "Absent unless the protocol type is consumer.",
        lambda row: row.assigned_partitions,
    ),
    _gauge(
        "offsets",
        f"Partitions with a committed offset. Kafka: {_MANAGER}NumOffsets, of the whole broker.",
        lambda row: row.offsets,
    ),
    _gauge(
        "rebalance_running_seconds",
        "How long the rebalance has been running. Absent when none runs.",
        lambda row: _seconds(row.rebalancing_ms),
    ),
    _counter(
        "rebalances_completed",
        "Rebalances that ended with the assignment in the log, not those that left the group Empty or began anew "
        "before their end.",
        lambda row: row.rebalances_completed,
        kafka=f"{_COORDINATOR}group-completed-rebalance-count",
    ),
    _counter(
        "joins",
        "JoinGroup requests accepted, of new members and of known ones.",
        lambda row: row.joins,
        kafka=f"{_REQUESTS}JoinGroup, refused ones too",
    ),
    _counter(
        "syncs",
        "SyncGroup requests accepted.",
        lambda row: row.syncs,
        kafka=f"{_REQUESTS}SyncGroup, refused ones too",
    ),
    _counter(
        "leaves",
        "Members that left by LeaveGroup.",
        lambda row: row.leaves,
        kafka=f"{_REQUESTS}LeaveGroup, by request",
    ),
    _counter(
        "offset_commits",
        "Partitions whose offset was committed.",
        lambda row: row.offset_commits,
        kafka=f"{_COORDINATOR}offset-commit-count",
    ),
    _counter(
        "offset_expirations",
        "Offsets that expired.",
        lambda row: row.offset_expirations,
        kafka=f"{_COORDINATOR}offset-expiration-count",
    ),
    _counter(
        "offset_deletions",
        "Offsets deleted by OffsetDelete or with their topic, not by DeleteGroups.",
        lambda row: row.offset_deletions,
        kafka=f"{_COORDINATOR}offset-deletion-count",
    ),
)
STATE = Family(
    "muster_group_state",
    "gauge",
    ("group", "state"),
    "1 for the state that the group is in, 0 for the others, named as in DescribeGroups.",
)
STARTED = Family(
    "muster_group_rebalances_started",
    "counter",
    ("group", "cause"),
    f"Rebalances begun, by cause; a cause is absent until it occurs. {_LIFE}",
)
EXPIRIES = Family(
    "muster_group_member_expiries",
    "counter",
    ("group", "cause"),
    "Members removed without their asking, by cause (no heartbeat in time: session expired); a cause is absent until "
    f"it occurs. {_LIFE}",
)
DURATION = Family(
    "muster_group_rebalance_duration_seconds",
    "summary",
    ("group",),
    "Duration of completed rebalances, from the first reason to rebalance until the assignment is in the log; sum and "
    f"count only. {_LIFE}",
)
MOVES = Family(
    "muster_group_coordinator_moves",
    "counter",
    ("group",),
    "Times that the group's coordinator was started anew since its first start, here or on another node: the leader "
    "epoch of its partition, the first being 0. Outlives the actor.",
)
DURATIONS = Family(
    "muster_coordinator_rebalance_duration_seconds",
    "histogram",
    ("offsets_partition",),
    f"Duration of completed rebalances of all groups, those deleted since too. {_LIFE}",
)
GROUPS = Family(
    "muster_coordinator_groups",
    "gauge",
    ("offsets_partition", "state"),
    f"Groups by state. Kafka: {_MANAGER}NumGroups, NumGroupsStable, NumGroupsPreparingRebalance and so on; "
    f"{_COORDINATOR}group-count.",
)
OFFSETS = Family(
    "muster_coordinator_offsets",
    "gauge",
    ("offsets_partition",),
    f"Committed offsets of all groups. Kafka: {_MANAGER}NumOffsets.",
)
LOAD = Family(
    "muster_coordinator_load_seconds",
    "gauge",
    ("offsets_partition",),
    "Time from the first record replayed until the coordinator was active, at its last start. "
    f"Kafka: {_COORDINATOR}partition-load-time-max.",
)
PARTITIONS = Family(
    "muster_coordinator_partitions",
    "gauge",
    ("state",),
    "Partitions of __consumer_offsets that FindCoordinator gives to this gateway and that were ever used: active, or "
    f"loading (or down). Kafka: {_COORDINATOR}num-partitions.",
)
CORRUPT = Family(
    "muster_log_corrupt_segments",
    "gauge",
    ("log",),
    "Segments that the log actor has set aside as corrupt or misses, in the partitions that it has open.",
)
FAMILIES = (
    STATE,
    *(family for family, _ in OF_GROUP),
    STARTED,
    DURATION,
    EXPIRIES,
    MOVES,
    DURATIONS,
    GROUPS,
    OFFSETS,
    LOAD,
    PARTITIONS,
    CORRUPT,
)

_BOUNDS = (*(repr(bound / 1000) for bound in REBALANCE_BUCKETS_MS), "+Inf")


def told_here(view: ClusterView, gateway_id: int) -> list[int]:
    """Offsets partitions, of those that were ever started, whose groups this gateway tells of."""
    coordinators = {partition: view.coordinator_of(partition) for partition in view.offsets}
    return sorted(partition for partition, broker in coordinators.items() if broker and broker.id == gateway_id)


@dataclass(frozen=True, slots=True)
class Scrape:
    """What the coordinators of one gateway said."""

    gateway: int
    snapshots: tuple[Snapshot, ...]
    active: int
    loading: int
    """Partitions of this gateway without an actor that serves."""
    corrupt_segments: Mapping[int, int] = field(default_factory=dict)
    """By log actor, of those that this gateway tells of."""

    def text(self, *, openmetrics: bool) -> bytes:
        """All families, without OpenMetrics' end mark. Long with many groups: meant for a thread."""
        lines = _Lines(f'gateway="{self.gateway}"')
        lines.add(PARTITIONS, 'state="active"', self.active)
        lines.add(PARTITIONS, 'state="loading"', self.loading)
        for index, count in self.corrupt_segments.items():
            lines.add(CORRUPT, f'log="{index}"', count)
        for snapshot in self.snapshots:
            _write_partition(lines, snapshot)
        return lines.text(openmetrics)


async def scrape(gateway: Gateway) -> Scrape:
    """Ask the actors; never longer than DEADLINE_S. Those that say nothing are counted in the gateway's metrics."""
    view = gateway.view
    here = told_here(view, gateway.id)
    up = [partition for partition in here if view.offsets[partition] is not None]
    (answers, missing), corrupt = await asyncio.gather(
        ask_all(gateway, {"ask": "metrics"}, DEADLINE_S, up), _corrupt_segments(gateway)
    )
    snapshots: list[Snapshot] = []
    for partition, answer in answers.items():
        try:
            snapshots.append(Snapshot.from_answer(answer))
        except (KeyError, TypeError) as error:
            log.error("offsets-%d says what this gateway cannot read: %r", partition, error)
            missing.append(partition)
    for partition in missing:
        gateway.metrics.group_scrape_error(f"offsets-{partition}")
    return Scrape(gateway.id, tuple(snapshots), active=len(up), loading=len(here) - len(up), corrupt_segments=corrupt)


async def _corrupt_segments(gateway: Gateway) -> dict[int, int]:
    """As the log actors of this gateway say; those that are late are left out. Each log actor has one gateway."""
    gateways = sorted(broker.id for broker in gateway.view.brokers)
    logs = sorted(gateway.view.logs)
    here = [index for index in logs if gateways and gateways[index % len(gateways)] == gateway.id]
    answers = await ask_logs(gateway, {"ask": "log_health"}, DEADLINE_S, here)
    return {index: int(answer.get("corrupt_segments", 0)) for index, answer in answers.items()}


class _Lines:
    """Series by family: those of a family have to stand together."""

    def __init__(self, labels: str) -> None:
        self._labels = labels
        self._lines: dict[str, list[str]] = {family.name: [] for family in FAMILIES}

    def add(self, family: Family, labels: str, value: float, suffix: str = "") -> None:
        """A series; the labels as they stand between braces."""
        self._lines[family.name].append(f"{family.sample}{suffix}{{{self._labels},{labels}}} {value}\n")

    def text(self, openmetrics: bool) -> bytes:
        families = ((family.head(openmetrics), *self._lines[family.name]) for family in FAMILIES)
        return b"".join("".join(lines).encode() for lines in families)


def _write_partition(lines: _Lines, snapshot: Snapshot) -> None:
    states: Counter[str] = Counter(dict.fromkeys(STATES, 0))
    offsets = 0
    for row in snapshot.rows():
        states[row.state] += 1
        offsets += row.offsets
        _write_group(lines, row, snapshot.epoch)
    here = f'offsets_partition="{snapshot.partition}"'
    for state, groups in states.items():
        lines.add(GROUPS, f'{here},state="{state}"', groups)
    lines.add(OFFSETS, here, offsets)
    lines.add(LOAD, here, snapshot.load_ms / 1000)
    counts = list(accumulate(snapshot.rebalance_buckets))
    for bound, count in zip(_BOUNDS, counts, strict=True):
        lines.add(DURATIONS, f'{here},le="{bound}"', count, "_bucket")
    lines.add(DURATIONS, here, counts[-1], "_count")
    lines.add(DURATIONS, here, snapshot.rebalances_ms / 1000, "_sum")


def _write_group(lines: _Lines, row: GroupRow, epoch: int) -> None:
    group = f'group="{escaped(group_label(row.group))}"'
    for state in STATES:
        lines.add(STATE, f'{group},state="{state}"', int(state == row.state))
    for family, read in OF_GROUP:
        value = read(row)
        if value is not None:
            lines.add(family, group, value)
    for cause, count in row.rebalances_started.items():
        lines.add(STARTED, f'{group},cause="{cause}"', count)
    for cause, count in row.expiries.items():
        lines.add(EXPIRIES, f'{group},cause="{cause}"', count)
    lines.add(DURATION, group, row.rebalances_completed, "_count")
    lines.add(DURATION, group, row.rebalances_ms / 1000, "_sum")
    lines.add(MOVES, group, epoch)


def escaped(text: str) -> str:
    """As it stands between the quotes of a label's value."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

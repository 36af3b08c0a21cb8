"""The responses of the HTTP API as values, and all of them at one moment: :class:`Snapshot`.

Readers take what the API returns and keep what pages need; unknown fields are left out, missing ones have a default,
so that a console reads gateways that are a little older or newer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Json = Mapping[str, Any]


class GroupRow(NamedTuple):
    """One group of ``/v1/groups/lag``. ``lag`` in messages, ``lag_s`` in seconds; None if unknown."""

    group: str
    state: str
    type: str
    protocol_type: str
    members: int
    lag: int | None
    lag_s: float | None
    behind: int
    partitions: int
    without_commit: int
    messages_without_commit: int


def group_row(value: Json) -> GroupRow:
    """Read one group of ``/v1/groups/lag``."""
    get = value.get
    return GroupRow(
        value["group"],
        get("state") or "Unknown",
        get("type") or "classic",
        get("protocol_type") or "",
        get("members") or 0,
        get("lag"),
        get("lag_s"),
        get("behind") or 0,
        get("partitions") or 0,
        get("without_commit") or 0,
        get("messages_without_commit") or 0,
    )


@dataclass(frozen=True, slots=True)
class Who:
    """A member, as in the journal."""

    member_id: str = ""
    client_id: str = ""
    host: str = ""
    group_instance_id: str | None = None

    @property
    def name(self) -> str:
        """The name by which people know it."""
        return self.group_instance_id or self.client_id or self.member_id or "an unknown client"


def who(value: Json | None) -> Who | None:
    """Read a member; None if there is none."""
    if not value:
        return None
    return Who(
        value.get("member_id") or "",
        value.get("client_id") or "",
        (value.get("host") or "").lstrip("/"),
        value.get("group_instance_id"),
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """A rebalance in progress, from ``/v1/groups/waiting``. Times in ms since the epoch."""

    group: str
    state: str
    since_ms: int
    deadline_ms: int | None
    waits_for: tuple[Who, ...]
    left_out: int = 0
    initial_delay: bool = False


def waiting(value: Json) -> Waiting:
    """Read one rebalance in progress."""
    awaited = [found for each in (*value.get("members", ()), *value.get("pending", ())) if (found := who(each))]
    return Waiting(
        value["group"],
        value.get("state") or "",
        value.get("since_ms") or 0,
        value.get("deadline_ms"),
        tuple(awaited),
        (value.get("members_left_out") or 0) + (value.get("pending_left_out") or 0),
        bool(value.get("initial_delay")),
    )


@dataclass(frozen=True, slots=True)
class ActorRow:
    """One actor of ``/v1/status``."""

    name: str
    state: str
    pid: int | None = None
    node_id: str | None = None
    address: str | None = None
    metrics_url: str | None = None
    restarts: int | None = None
    error: str | None = None
    standby: str | None = None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node of ``/v1/status``."""

    node_id: str
    address: str
    state: str
    actors: tuple[str, ...] = ()
    cpu: float | None = None
    memory_bytes: float | None = None


def actor_row(value: Json) -> ActorRow:
    """Read one actor of the status."""
    names = ("pid", "node_id", "address", "metrics_url", "restarts", "error", "stand_in")
    return ActorRow(value["name"], value.get("state") or "unknown", *(value.get(name) for name in names))


def node_row(value: Json) -> NodeRow:
    """Read one node of the status."""
    resources = value.get("resources") or {}
    return NodeRow(
        value["node_id"],
        value.get("address") or "",
        value.get("state") or "unknown",
        tuple(value.get("actors") or ()),
        resources.get("CPU"),
        resources.get("memory"),
    )


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One fault in force, from ``/v1/faults``. ``fault`` as it was injected."""

    id: str
    fault: Json
    injected_ms: int
    expires_at_ms: int | None
    matched: int
    hits: int
    actor: str | None = None
    pid: int | None = None


def fault_row(value: Json) -> FaultRow:
    """Read one fault."""
    return FaultRow(
        value["id"],
        value.get("fault") or {},
        value.get("injected_ms") or 0,
        value.get("expires_at_ms"),
        value.get("matched") or 0,
        value.get("hits") or 0,
        value.get("actor"),
        value.get("pid"),
    )


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """One gateway of ``/v1/cluster``."""

    id: int
    host: str
    port: int
    node_id: str = ""
    rack: str | None = None
    http: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The response of ``/v1/cluster``: which cluster this is, and what the viewer may do there."""

    cluster_id: str = ""
    version: str = ""
    gateways: tuple[GatewayRow, ...] = ()
    principal: str = ""
    may_change: bool = False
    fault_injection: bool = False
    may_fault: bool = False

    @property
    def bootstrap(self) -> str:
        """Kafka addresses of up to three gateways, as clients take them."""
        return ",".join(_address(each.host, each.port) for each in self.gateways[:3])


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def cluster(value: Json) -> Cluster:
    """Read the response of ``/v1/cluster``."""
    gateways = tuple(
        GatewayRow(
            each["id"],
            each.get("host") or "",
            each.get("port") or 0,
            each.get("node_id") or "",
            each.get("rack"),
            each.get("http"),
        )
        for each in value.get("gateways") or ()
    )
    return Cluster(
        value.get("cluster_id") or "",
        value.get("version") or "",
        gateways,
        value.get("principal") or "",
        bool(value.get("may_change")),
        bool(value.get("fault_injection")),
        bool(value.get("may_fault")),
    )


def cluster_of_status(status: Json, has_faults: bool) -> Cluster:
    """Return what the status says about the cluster, for gateways without ``/v1/cluster``: nothing may be changed."""
    gateways = []
    for each in status.get("actors") or ():
        name, _, number = each["name"].partition("-")
        host, _, port = (each.get("address") or "").rpartition(":")
        if name == "gateway" and number.isdigit() and port.isdigit():
            url = (each.get("metrics_url") or "").removesuffix("/metrics") or None
            gateways.append(GatewayRow(int(number), host.strip("[]"), int(port), each.get("node_id") or "", None, url))
    return Cluster(status.get("cluster_id") or "", "", tuple(gateways), "", False, has_faults, has_faults)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the console knows at one moment."""

    at_ms: int = 0
    """When it was taken; 0: nothing has been fetched yet."""
    took_s: float = 0.0
    gateway: str = ""
    """URL of the gateway that responded."""
    failed_gateways: Mapping[str, str] = field(default_factory=dict)
    """URLs of gateways that did not, and why."""
    error: str | None = None
    """Why nothing could be fetched; the rest is from before, then."""
    cluster: Cluster = Cluster()
    groups: Sequence[GroupRow] = ()
    groups_error: str | None = None
    partial: bool = False
    missing_partitions: tuple[int, ...] = ()
    missing_actors: tuple[str, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    actors: tuple[ActorRow, ...] = ()
    status_error: str | None = None
    """Why nodes and actors are not known: the controller is silent, or the viewer may not see them."""
    faults: tuple[FaultRow, ...] = ()
    missing_routes: frozenset[str] = frozenset()
    """Paths of the API that the gateway does not have."""

    def group(self, name: str) -> GroupRow | None:
        """Return the row of one group; None if there is none."""
        return next((row for row in self.groups if row.group == name), None)

    def states(self) -> dict[str, int]:
        """Return the number of groups in each state, the most frequent first."""
        return dict(Counter(row.state for row in self.groups).most_common())


def lag_totals(groups: Sequence[GroupRow]) -> tuple[int, float | None]:
    """Return the sum of the lag in messages, and the largest lag in seconds (None if no lag is known in seconds)."""
    seconds = [row.lag_s for row in groups if row.lag_s is not None]
    return sum(row.lag or 0 for row in groups), max(seconds, default=None)

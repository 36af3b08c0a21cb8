"""The settings that ``muster up`` starts a cluster with, and what the cluster reports once it serves."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from muster.actors.object_storage.location import Location
from muster.placement.zookeeper.access import ANYONE, Access

if TYPE_CHECKING:  # commands need its constants, and its import takes longer than they may
    from muster.actors.config import MusterConfig

LogFormat = Literal["text", "json"]
JSON_LOG: LogFormat = "json"
NAMESPACE = "muster"
"""Ray namespace of all of Muster's actors."""
HTTP_ADDRESSES = "http-addresses"
"""A key in Ray's key-value store: ``{"cluster_id": ID, "metrics": [URL]}``, the gateways at the start, as JSON."""
CONSOLE_PORT = "console-port"
"""A key in Ray's key-value store: the port that the console's actor has, for its next process."""
CLUSTER_ID_HEADER = "Muster-Cluster-Id"
"""Header of HTTP by which a request is served by no other cluster than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """All settings that the actors are started with. Picklable. Has passwords, hidden from ``repr``."""

    config: MusterConfig
    storage: str
    """Absolute path; the same directory on every node, or with a ``bucket``, one of each node's own."""
    bucket: str | None = None
    """URI of the bucket in which everything is that must survive a node. None: that is in ``storage``."""
    cluster_id: str
    zookeeper: str
    """HOST:PORT[,HOST:PORT...][/CHROOT] of a ZooKeeper that already serves; empty until there is one."""
    zookeeper_access: Access = ANYONE
    host: str | None
    """Address that gateways bind where a listener names none, and advertise. None: they bind all interfaces and
    advertise their node's address."""
    gateway_ports: tuple[tuple[int, ...], ...] | None
    """For each gateway, the port of each listener. None: one gateway on every node, at the ports in ``config``."""
    metrics_ports: tuple[int, ...] | None
    """Port of /metrics of each gateway, in the same order; 0: a free one. None: ``metrics_port`` on each."""
    metrics_port: int
    """Port of /metrics of a gateway if ``gateway_ports`` is None; 0: a free one."""
    namespace: str = NAMESPACE
    log_format: LogFormat = "text"
    """Format of the actors' logs."""

    @property
    def location(self) -> Location | None:
        """The place of ``bucket``."""
        return None if self.bucket is None else Location.parse(self.bucket)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReady:
    """Where a serving cluster can be reached."""

    bootstrap: tuple[str, ...]
    """HOST:PORT of each gateway, as clients of its first listener use it."""
    listeners: Mapping[str, tuple[str, ...]]
    """Addresses of each listener, by name."""
    metrics: tuple[str, ...]
    """URL of each gateway's /metrics."""
    zookeeper: str
    logs: str
    """Folder with the log of each actor."""
    console: str | None = None
    """URL that leads to the console; None without one."""

    def line(self) -> str:
        """Return the line that ``muster up`` prints when everything serves; ``shlex.split`` parses it."""
        return (
            f"muster ready bootstrap={','.join(self.bootstrap)} metrics={','.join(self.metrics)} "
            f"zookeeper={self.zookeeper} logs={shlex.quote(self.logs)}"
            f"{f' console={self.console}' if self.console else ''}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the line's content as a dict for JSON."""
        return dataclasses.asdict(self)

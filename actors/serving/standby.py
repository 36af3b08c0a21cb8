"""The Ray actor ``standby-<n>``: one warm process per node that takes over the roles of dead actors.

Ray takes more than a second to start a process that has everything imported. This process waits with all imports and
connections in place, so nothing serves a partition only while its log is opened. It also sends signals to the
processes of its node, which nothing else in the cluster can do, and holds the listening sockets of its gateways: it
serves the clients of those that are dead.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from muster.actors.log.cumulative_size import CumulativeSizes, TopicPartition
from muster.actors.log.role import LogOpener, ServedLogs
from muster.actors.offsets.held import Version, news
from muster.actors.offsets.serving import OffsetsOpener, ServedPartition
from muster.actors.runtime.actor import Actor
from muster.actors.runtime.follow import ViewFollower
from muster.actors.runtime.process import holder_path
from muster.actors.runtime.ray.processes import signal_process, until_process_ends
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.serving.host import Opener, RoleHost
from muster.actors.transaction_state.serving import TransactionsOpener
from muster.actors.wire.sockets.holder import Accepting, SocketHolder
from muster.placement.mapping.registration import Registration
from muster.placement.view import OFFSETS, TRANSACTIONS, ClusterView


class Gateways(Accepting, Protocol):
    """Serves gateways of its node that are dead."""

    async def stop(self) -> None:
        """Stop serving. The holder of the sockets has stopped before."""


GatewaysOf = Callable[[ClusterSettings, str, Callable[[], ClusterView]], Gateways]
"""Called with the settings, the node, and what gives the newest view."""


class StandbyActor(Actor):
    """See the module. ``start`` is called for every new process, possibly more than once."""

    watches_controller = True

    def __init__(self, settings: ClusterSettings, secret: bytes, number: int, gateways_of: GatewaysOf) -> None:
        super().__init__(settings, secret, f"standby-{number}")
        self._gateways_of = gateways_of
        openers: dict[str, Opener] = {
            OFFSETS: OffsetsOpener(settings, secret),
            TRANSACTIONS: TransactionsOpener(settings, secret),
            "log": LogOpener(settings, secret, self.name),
        }
        self._host = RoleHost(openers, self._listen)
        self._sockets: SocketHolder | None = None

    async def _start(self) -> Started:
        self._follower = ViewFollower(self.settings, self.name)
        self._view = await self._follower.first()
        self._follower.follow(self._on_view)
        self._preparing = asyncio.get_running_loop().create_task(self._host.prepare())
        node_id, _ = self._node_and_address()
        if self._sockets is None:
            self._gateways = self._gateways_of(self.settings, node_id, lambda: self._view)
            path = holder_path(self.settings.cluster_id, node_id)
            self._sockets = SocketHolder(path, self.secret, accepting=self._gateways)
            self._sockets.start()
        return Started(pid=os.getpid(), node_id=node_id)

    def _on_view(self, view: ClusterView) -> None:
        self._view = view
        self._host.follow(view)

    async def take_over(self, role: str, epoch: int, predecessor: Any = None) -> Started:
        """Serve the role of that actor under an epoch that no other process has: see :meth:`RoleHost.serve`."""
        await self.start()
        return await self._host.serve(role, epoch, self._view, predecessor)

    async def hand_over(self, role: str, epoch: int | None = None) -> None:
        """Stop serving the role: see :meth:`RoleHost.hand_over`."""
        await self._host.hand_over(role, epoch)

    async def served_roles(self) -> dict[str, Started]:
        """Return the roles that are served here now; for a new controller."""
        return self._host.started

    async def until_over(self, role: str, epoch: int) -> None:
        """Return when the role is not served here under that epoch: handed over, or failed."""
        await self._host.until_over(role, epoch)

    async def registrations(
        self, known: Mapping[int, Version] | None = None
    ) -> dict[int, tuple[Registration, ...] | None]:
        """Which client consumes for which group, by partition; None where ``known`` is current."""
        versions = known or {}
        cores = [served.core for served in self._host.served(ServedPartition).values()]
        return {core.partition: news(core.registrations(), versions.get(core.partition)) for core in cores}

    async def audit_cumulative_sizes(
        self, role: str, queries: list[tuple[TopicPartition, tuple[int, ...]]]
    ) -> dict[TopicPartition, CumulativeSizes]:
        """Cumulative sizes from a log actor's role: see :meth:`Partitions.cumulative_sizes`. Raises NotServing."""
        return await self._host.find(ServedLogs, role).partitions.cumulative_sizes(queries)

    async def signal(self, pid: int, signal_number: int) -> None:
        """Send a signal to an actor's process on this node, possibly this one. Raises NotAnActor or PermissionError."""
        signal_process(pid, signal_number)

    async def until_process_ends(self, pid: int) -> None:
        """Return when a process of this node has ended. Raises OSError if the kernel cannot tell."""
        await until_process_ends(pid)

    async def stop(self) -> None:
        """Stop serving all roles, without a successor."""
        if self._started is None:
            return
        self._follower.stop()
        self._preparing.cancel()  # it may wait for ZooKeeper
        await self._host.stop()
        if self._sockets is not None:
            await asyncio.to_thread(self._sockets.stop)
            await self._gateways.stop()

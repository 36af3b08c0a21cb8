"""The Ray actor ``standby-<n>``: one warm process per node that takes over the partitions of a dead offsets actor.

Ray takes more than a second to start a process that has everything imported. This process waits with all imports and
connections in place, so a partition lacks a coordinator only while its log is opened. It also sends signals to the
processes of its node, which nothing else in the cluster can do, and holds the listening sockets of its gateways.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from muster.actors.offsets.held import Version, news
from muster.actors.offsets.serving import PartitionHost
from muster.actors.runtime.actor import Actor
from muster.actors.runtime.follow import ViewFollower
from muster.actors.runtime.process import holder_path
from muster.actors.runtime.processes import signal_process, until_process_ends
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.wire.held_sockets import SocketHolder
from muster.placement.mapping.registration import Registration
from muster.placement.view import ClusterView


class StandbyActor(Actor):
    """See the module. ``start`` is called for every new process, possibly more than once."""

    watches_controller = True

    def __init__(self, settings: ClusterSettings, secret: bytes, number: int) -> None:
        super().__init__(settings, secret, f"standby-{number}")
        self._host = PartitionHost(settings, secret, self._listen)
        self._sockets: SocketHolder | None = None

    async def _start(self) -> Started:
        self._follower = ViewFollower(self.settings, self.name)
        self._view = await self._follower.first()
        self._follower.follow(self._on_view)
        node_id, _ = self._node_and_address()
        if self._sockets is None:
            self._sockets = SocketHolder(holder_path(self.settings.cluster_id, node_id), self.secret)
            self._sockets.start()
        return Started(pid=os.getpid(), node_id=node_id)

    def _on_view(self, view: ClusterView) -> None:
        self._view = view
        self._host.follow(view)

    async def take_over(self, partition: int, epoch: int, predecessor: Any = None) -> Started:
        """Serve a partition of ``__consumer_offsets`` under a leader epoch that no other process has.

        ``predecessor``, an actor handle, is requested to hand over first. LogError if the log cannot be opened.
        """
        await self.start()
        return await self._host.serve(partition, epoch, self._view, predecessor)

    async def hand_over(self, partition: int, epoch: int | None = None) -> None:
        """Stop serving the partition: see :meth:`PartitionHost.hand_over`."""
        await self._host.hand_over(partition, epoch)

    async def served_partitions(self) -> dict[int, Started]:
        """The partitions that are served here now; for a new controller."""
        return self._host.started

    async def until_over(self, partition: int, epoch: int) -> None:
        """Return when the partition is not served here under that epoch: handed over, or its log failed."""
        await self._host.until_over(partition, epoch)

    async def registrations(
        self, known: Mapping[int, Version] | None = None
    ) -> dict[int, tuple[Registration, ...] | None]:
        """Which client consumes for which group, by partition; None where ``known`` is current."""
        versions = known or {}
        held = self._host.registrations()
        return {partition: news(some, versions.get(partition)) for partition, some in held.items()}

    async def signal(self, pid: int, signal_number: int) -> None:
        """Send a signal to an actor's process on this node, possibly this one. NotAnActor, PermissionError."""
        signal_process(pid, signal_number)

    async def until_process_ends(self, pid: int) -> None:
        """Return when a process of this node has ended. OSError if the kernel cannot tell."""
        await until_process_ends(pid)

    async def stop(self) -> None:
        """Stop serving all partitions, without a successor."""
        if self._started is None:
            return
        self._follower.stop()
        await self._host.stop()
        if self._sockets is not None:
            await asyncio.to_thread(self._sockets.stop)

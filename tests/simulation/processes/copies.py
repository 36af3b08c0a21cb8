"""The process of an offsets actor: the real shell over the real log, with a simulated disk under it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from muster.actors.config import MusterConfig
from muster.actors.log.errors import LogError
from muster.actors.log.partition import PartitionLog
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.offsets.serving import OffsetsOpener
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.serving.host import RoleHost
from muster.actors.wire.internal.listener import Server
from muster.placement.layout import BROKER_IDS
from muster.placement.view import ClusterView
from muster.placement.zookeeper.ephemeral import EphemeralNode
from tests.simulation.processes.acknowledged import Acknowledged
from tests.simulation.processes.disk import SimulatedDisk, Storage
from tests.simulation.processes.process import Machine, Process
from tests.simulation.processes.sessions import Sessions
from tests.simulation.processes.threads import here

PARTITION = 0
ROLE = f"offsets-{PARTITION}"
SECRET = b"secret"
TOPIC_ID = UUID("00000000-0000-4000-8000-000000000007")


def settings_of(storage: Path, config: dict[str, Any]) -> ClusterSettings:
    return ClusterSettings(
        config=MusterConfig(**config),
        storage=str(storage),
        cluster_id="simulated",
        zookeeper="simulated:2181",
        host=None,
        gateway_ports=None,
        metrics_ports=None,
        metrics_port=0,
    )


class Copy(Process):
    """One process that serves the partition, served it, or will. It does not know of the others."""

    def __init__(
        self,
        machine: Machine,
        number: int,
        storage: Storage,
        settings: ClusterSettings,
        acknowledged: Acknowledged,
        sessions: Sessions,
        ends: bool,
    ) -> None:
        """Make a copy. ``ends``: whether the process ends with its log, like ``offsets-<p>`` and unlike a standby."""
        super().__init__(machine, f"copy{number}")
        self.number = number
        self.disk = SimulatedDisk(self, storage)
        self.acknowledged = acknowledged
        self.sessions = sessions
        self.logs: list[WatchedLog] = []
        self.given_epoch = -1
        self._servers: dict[int, Server] = {}
        openers = {"offsets": OffsetsOpener(settings, SECRET)}
        self.host = RoleHost(openers, self._listen, fail=self._ended if ends else None)
        self.at_end.append(self._close_files)
        self.after(0, self._register)

    def _register(self) -> None:
        self.node = EphemeralNode("simulated:2181", f"{BROKER_IDS}/{self.number}", lambda: str(self.number).encode())

    def _ended(self) -> None:
        self.machine.note("%s ends: its log has failed", self.name)
        self.kill()

    def _close_files(self) -> None:
        for each in self.logs:
            each.close_files()

    @property
    def epoch(self) -> int:
        """The epoch in which the partition is served here now; -1: it is not."""
        started = self.host.started.get(ROLE) if self.alive else None
        return -1 if started is None else started.epoch

    @property
    def server(self) -> Server | None:
        """Server of the partition to gateways here now."""
        return self._servers.get(self.epoch)

    @property
    def core(self) -> OffsetsPartition | None:
        """The partition that is served here now."""
        return None if self.server is None else _partition_of(self.server)

    @property
    def last(self) -> tuple[int, OffsetsPartition] | None:
        """The last partition that was served here, with its epoch. It may be resigning, or have resigned."""
        epoch = max(self._servers, default=-1)
        return None if epoch < 0 or not self.alive else (epoch, _partition_of(self._servers[epoch]))

    def serve(self, epoch: int, view: ClusterView, predecessor: Copy | None, started: Any) -> None:
        """``started(copy, epoch, ok)`` is called when it serves, or cannot."""
        self.given_epoch = max(self.given_epoch, epoch)

        async def serve() -> None:
            try:
                await self.host.serve(ROLE, epoch, view, None if predecessor is None else Handle(predecessor))
            except LogError as error:
                self.machine.note("%s cannot serve epoch %s: %s", self.name, epoch, repr(error))
                started(self, epoch, False)
            else:
                started(self, epoch, True)

        self.after(1, lambda: self.loop.create_task(serve()))

    async def _listen(self, server: Server, name: str, epoch: int) -> Started:
        await asyncio.sleep(0.001)
        self._servers[epoch] = server
        self.sessions.serves(self, epoch)
        _partition_of(server).observers.add(lambda event, at_ms: self.sessions.event(self, epoch, event))
        return Started(pid=self.number, node_id=self.name, epoch=epoch)


def _partition_of(server: Server) -> OffsetsPartition:
    assert isinstance(server.handler, OffsetsPartition)
    return server.handler


class Handle:
    """Like Ray's handle of the actor: a call takes time, and fails or hangs with the process."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self.hand_over = self

    def remote(self, role: str) -> asyncio.Future[None]:
        caller = here()
        future: asyncio.Future[None] = caller.loop.create_future()

        def done() -> None:
            if not future.done():
                future.set_result(None)

        async def hand_over() -> None:
            with suppress(LogError):
                await self._copy.host.hand_over(role)
            caller.after(1, done)

        self._copy.after(1, lambda: self._copy.loop.create_task(hand_over()))
        return future


class WatchedLog(PartitionLog):
    """The log of a copy, which records its acknowledgements."""

    @classmethod
    def open(cls, directory: Path, **how: Any) -> WatchedLog:
        copy = here()
        assert isinstance(copy, Copy)
        opened = super().open(directory, **how | {"disk": copy.disk})
        assert isinstance(opened, WatchedLog)
        copy.logs.append(opened)
        copy.acknowledged.opened(copy.name, opened.epoch)
        opened.watch_writes(copy)
        return opened

    def watch_writes(self, copy: Copy) -> None:
        writer, synced = self._writer, copy.disk.synced_bytes
        push, settle = writer.push, writer._settle

        def pushed(*arguments: Any) -> Any:
            write = push(*arguments)
            copy.acknowledged.pushed(write)
            return write

        def settled(write: Any, error: LogError | None) -> None:
            tail = writer.segments[-1]
            copy.acknowledged.settled(copy.name, self.epoch, write, error, synced(tail.path) >= tail.size_bytes)
            settle(write, error)

        writer.push, writer._settle = pushed, settled  # type: ignore[method-assign, assignment]

    def close_files(self) -> None:
        """Like the kernel at the end of the process."""
        for segment in self._writer.segments:
            segment.close()
        self._writer.append_times._close_file()
        self._writer.keeper._recovery_point.close()

"""Parts that all Ray actors of Muster share: they start once, listen, respond to pings and end."""

from __future__ import annotations

import asyncio
import os
from ipaddress import ip_address
from pathlib import Path

import ray

from muster.actors.log.upkeep.hold import HOLD
from muster.actors.runtime.event_writer import upload_tables
from muster.actors.runtime.liveness.controller import ControllerPings, watch_controller
from muster.actors.runtime.memory import settle
from muster.actors.runtime.process import log_to_file, socket_path
from muster.actors.runtime.ray.light_worker import end_signal_polls_soon, without_arrow_serialization_in_worker
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.runtime.storage import check_shared, make_own
from muster.actors.tables.arrow import without_numpy
from muster.actors.wire.internal.listener import Server

without_arrow_serialization_in_worker()


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or (host is not None and ip_address(host).is_loopback)
    except ValueError:
        return False


def node_labels() -> dict[str, str]:
    """Ray's labels of this process's node. Blocks. Raises RayError."""
    own = ray.get_runtime_context().get_node_id()
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return next((dict(node.get("Labels") or {}) for node in nodes if node["NodeID"] == own), {})


class Actor:
    """Base class of the actors. ``start`` is called in every new process, possibly more than once."""

    watches_controller = False
    """Whether it ends a controller that does not respond: some actors do, so that most nodes have one that does."""

    def __init__(self, settings: ClusterSettings, secret: bytes, name: str) -> None:
        self.settings = settings
        self.secret = secret
        self.name = name
        self._started: asyncio.Future[Started] | None = None
        self._watching: asyncio.Task[None] | None = None
        without_numpy()
        log_to_file(Path(settings.storage), name, settings.log_format)

    def __repr__(self) -> str:
        """Return the name, which Ray's dashboard and its lines of logs show."""
        return self.name

    async def start(self) -> Started:
        """Start serving. Repeated calls return the same result."""
        if self._started is None or (self._started.done() and self._started.exception()):
            self._started = asyncio.ensure_future(self._start_checked())
        return await asyncio.shield(self._started)

    async def _start_checked(self) -> Started:
        self._watch_controller()
        await self._check_storage()
        started = await self._start()
        self._rest()
        return started

    def _watch_controller(self) -> None:
        """From now on, if this actor is one that does."""
        timeout_s = self.settings.config.actor_liveness_timeout_ms / 1000
        if self.watches_controller and timeout_s and self._watching is None:
            pings = ControllerPings(self.settings)
            self._watching = asyncio.get_running_loop().create_task(watch_controller(pings, timeout_s))

    async def _check_storage(self) -> None:
        check = check_shared if self.settings.bucket is None else make_own
        await asyncio.to_thread(check, Path(self.settings.storage), self.settings.cluster_id)
        upload_tables(self.settings)

    async def _start(self) -> Started:
        raise NotImplementedError

    @staticmethod
    def _rest() -> None:
        """To be called when the start is over."""
        settle()
        end_signal_polls_soon()

    async def ping(self) -> tuple[int, str]:
        """Pid and node; a process that responds is not paused and does not hang."""
        return os.getpid(), ray.get_runtime_context().get_node_id()

    async def park(self, pid: int) -> None:
        """Return only if this is not the process with that pid; otherwise Ray reports its death to the caller."""
        if pid == os.getpid():
            await asyncio.Event().wait()

    async def hold_acknowledgements(self) -> str:
        """See :meth:`AcknowledgementHold.begin`."""
        return await HOLD.begin()

    async def release_acknowledgements(self, token: str) -> float | None:
        """See :meth:`AcknowledgementHold.end`."""
        return HOLD.end(token)

    async def end(self, pid: int) -> None:
        """End this process at once if it has that pid, which others consider dead."""
        if pid == os.getpid():
            os._exit(1)

    def _node_and_address(self) -> tuple[str, str]:
        address = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        return ray.get_runtime_context().get_node_id(), str(address)

    async def _listen(self, server: Server, name: str, epoch: int = -1) -> Started:
        """Listen for gateways; only on loopback if the gateways do (a Ray of one node)."""
        node_id, host = self._node_and_address()
        if all(_is_loopback(each.host or self.settings.host) for each in self.settings.config.all_listeners):
            host = "127.0.0.1"
        path = socket_path(self.settings.cluster_id, name)
        ports, tls = self.settings.config.actor_ports, self.settings.config.internal_ssl_enable
        endpoint = await server.start(node_id=node_id, host=host, path=path, ports=ports, tls=tls)
        return Started(pid=os.getpid(), node_id=node_id, endpoint=endpoint, epoch=epoch)

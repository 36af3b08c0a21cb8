"""Serves gateways in a standby's process from the death of their own process until the next one serves.

Nothing asks for it: what holds a gateway's listening sockets sees the end of its process at once, and hears from its
next one (:mod:`muster.actors.wire.sockets.holder`). So the address of a gateway answers whatever the controller, Ray
and ZooKeeper do meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from muster.actors.runtime.follow import ViewFollower
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.wire.sockets.passing import Held, close_all
from muster.gateway.serving import ServedGateway
from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

_END_S = 1.0
"""How long the next process waits at most; that is how long most clients that connect in between wait."""
_IDLE_S = 0.2
_FAULTS_S = 0.2
_LAST_S = 30.0
"""How long connections whose requests take long are served, such as a JoinGroup."""


class GatewayStandby:
    """An :class:`muster.actors.wire.sockets.holder.Accepting`. It serves in the event loop in which it was created."""

    def __init__(self, settings: ClusterSettings, node_id: str, view: Callable[[], ClusterView]) -> None:
        """``node_id``: of this process. ``view`` gives the newest view that this process has."""
        self._settings = settings
        self._node_id = node_id
        self._view = view
        self._loop = asyncio.get_running_loop()
        self._serving: dict[str, asyncio.Task[_Serving | None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def begin(self, name: str, sockets: list[Held]) -> None:
        """See :meth:`Accepting.begin`."""
        self._loop.call_soon_threadsafe(self._begin, name, sockets)

    def end(self, name: str) -> None:
        """See :meth:`Accepting.end`."""
        try:
            asyncio.run_coroutine_threadsafe(self._end(name), self._loop).result(_END_S)
        except TimeoutError:
            log.warning("%s is still served here: this process is busy", name)
        except Exception:
            log.exception("%s may still be served here", name)

    def _begin(self, name: str, sockets: list[Held]) -> None:
        serving = _Serving(self._settings, name, sockets)
        self._serving[name] = self._loop.create_task(serving.begin(self._view(), self._node_id))

    async def _end(self, name: str) -> None:
        task = self._serving.pop(name, None)
        serving = await task if task is not None else None
        if serving is not None:
            try:
                await serving.give_way()
            finally:
                self._spawn(serving.finish())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """End what still serves. The holder of the sockets has stopped before."""
        for task in self._ending:
            task.cancel()
        if self._ending:
            await asyncio.wait(list(self._ending))


class _Serving:
    """One gateway."""

    def __init__(self, settings: ClusterSettings, name: str, sockets: list[Held]) -> None:
        self._settings = settings
        self._name = name
        self._sockets = sockets
        self._listeners = len(settings.config.all_listeners)
        self._gateway = ServedGateway(settings, int(name.rpartition("-")[2]))
        self._follower = ViewFollower(settings, name)

    async def begin(self, view: ClusterView, node_id: str) -> _Serving | None:
        """Serve it. None if it cannot be served here: then its clients wait for its next process."""
        try:
            await self._gateway.open(view, node_id, _FAULTS_S)
            self._follower.follow(self._gateway.follow, since=view)
            await self._gateway.listen(self._listen, [0] * self._listeners, 0)
        except Exception:
            log.exception("%s is not served here", self._name)
            close_all(held for _, held in self._sockets)
            self._follower.stop()
            with contextlib.suppress(Exception):  # logged already, most likely
                await self._gateway.stop()
            return None
        log.info("%s is served here until its next process does", self._name)
        return self

    def _listen(self, use: str, _host: str, _port: int) -> list[socket.socket]:
        """Return the sockets that the dead process had for that use; the host and the port are theirs."""
        found = [each for each in self._sockets if each[0].startswith(f"{use} ")]
        self._sockets = [each for each in self._sockets if each not in found]
        return [held for _, held in found]

    async def give_way(self) -> None:
        """Accept no more clients, and close what is idle.

        What was sent until now is in the table of samples then, unless its attribution is pending.
        """
        server = self._gateway.server
        await self._gateway.close_listeners()
        self._follower.stop()
        self._follower = ViewFollower(self._settings, f"{self._name} (ending)")  # its name is the next process's
        self._follower.follow(self._gateway.follow, since=server.view)
        for connection in list(server.connections.values()):
            connection.end_when_idle()
        await server.until_unused(_IDLE_S)
        try:
            await self._gateway.flush()
        except OSError as error:
            log.error("samples cannot be written: %s", error)
        log.info("%s is served by its next process", self._name)

    async def finish(self) -> None:
        """Close the other connections, between two requests, and stop once everything is attributed."""
        try:
            await self._gateway.end_connections()
            await self._gateway.server.until_unused(_LAST_S)
            await self._gateway.until_settled()
        finally:
            self._follower.stop()
            await self._gateway.stop()

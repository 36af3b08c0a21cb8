"""The controller's side of the standbys: which one serves in an actor's place, and which one can signal a process."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from muster.actors.runtime.errors import first_line
from muster.actors.runtime.ray.processes import signal_process, until_process_ends
from muster.actors.runtime.started import Started

log = logging.getLogger(__name__)

_ADOPT_S = 3.0
_RETRY_S = 1.0

NextEpoch = Callable[[str, str], Awaitable[int]]
"""Takes the next epoch of a role (the name of an actor) for an owner (the name of the actor that will serve it)."""


class NoStandby(RuntimeError):
    """No standby runs on that node."""


@dataclass(frozen=True, slots=True)
class Standby:
    """A live standby."""

    name: str
    handle: Any
    pid: int
    node_id: str


@dataclass(frozen=True, slots=True)
class ActiveStandby:
    """A standby that serves the role of an actor, and what it reported when it began to."""

    standby: Standby
    role: str
    started: Started

    async def until_over(self) -> None:
        """Return once it no longer serves the role. Raises RayError when the standby is lost."""
        await self.standby.handle.until_over.remote(self.role, self.started.epoch)

    def release(self) -> None:
        """Have it release the role, if it still serves under that epoch; does not wait for that."""
        self.standby.handle.hand_over.remote(self.role, self.started.epoch)


class Standbys:
    """Requests to the standbys that are alive; there may be none."""

    def __init__(self, alive: Callable[[], list[Standby]], next_epoch: NextEpoch) -> None:
        """``next_epoch(role, owner)`` never returns an epoch of a role twice."""
        self._alive = alive
        self._next_epoch = next_epoch
        self._busy: dict[str, int] = {}

    async def take_over(self, role: str, near: str | None, predecessor: Any = None) -> ActiveStandby | None:
        """Have a standby serve the role: the one on the node ``near``, else a less busy one. None if none can.

        If this is cancelled, or the standby is too slow, the next epoch fences whatever the standby still does.
        """
        for standby in self._best_first(near):
            self._busy[standby.name] = self._busy.get(standby.name, 0) + 1
            try:
                return await self.take_over_on(standby, role, predecessor)
            except RayError as error:
                log.warning("%s cannot take over %s: %s", standby.name, role, first_line(error))
            finally:
                self._busy[standby.name] -= 1
        return None

    async def take_over_on(self, standby: Standby, role: str, predecessor: Any = None) -> ActiveStandby:
        """Have that standby serve the role. Raises RayError."""
        epoch = await self._next_epoch(role, standby.name)
        call = standby.handle.take_over.remote(role, epoch, predecessor)
        try:
            return ActiveStandby(standby, role, await call)
        except asyncio.CancelledError:
            standby.handle.hand_over.remote(role, epoch)
            raise

    def _best_first(self, near: str | None) -> list[Standby]:
        def rank(standby: Standby) -> tuple[bool, int, str]:
            return standby.node_id != near, self._busy.get(standby.name, 0), standby.name

        return sorted(self._alive(), key=rank)

    def on(self, node_id: str) -> Standby:
        """Return the standby on that node. Raises NoStandby."""
        standby = self.find(node_id)
        if standby is None:
            raise NoStandby(f"no standby runs on node {node_id}")
        return standby

    def find(self, node_id: str) -> Standby | None:
        """Return the standby on that node, if one runs."""
        return next((standby for standby in self._alive() if standby.node_id == node_id), None)

    async def found(self) -> Mapping[str, ActiveStandby]:
        """Return the roles that standbys serve, for a new controller; the highest epoch of each role."""
        standbys = self._alive()
        responses = await asyncio.gather(*(_served_by(standby) for standby in standbys))
        active_standbys: dict[str, ActiveStandby] = {}
        for standby, response in zip(standbys, responses, strict=True):
            for role, started in response.items():
                known = active_standbys.get(role)
                if known is None or known.started.epoch < started.epoch:
                    active_standbys[role] = ActiveStandby(standby, role, started)
        return active_standbys

    async def signal(self, node_id: str, pid: int, signal_number: int) -> None:
        """Send a signal to an actor's process: directly if it is on this node, else through the standby there.

        Raises NoStandby or RayError; NotAnActor and PermissionError of
        :func:`muster.actors.runtime.ray.processes.signal_process`.
        """
        here = node_id == ray.get_runtime_context().get_node_id()
        if here and pid != os.getpid():
            signal_process(pid, signal_number)
            return
        await self.on(node_id).handle.signal.remote(pid, signal_number)

    async def until_gone(self, node_id: str, pid: int) -> None:
        """Return once the process has ended, reported by Ray up to 2 s later; never if that cannot be determined."""
        while True:
            try:
                if node_id == ray.get_runtime_context().get_node_id():
                    return await until_process_ends(pid)
                await self.on(node_id).handle.until_process_ends.remote(pid)
            except (NoStandby, RayError):
                await asyncio.sleep(_RETRY_S)
            except OSError as error:
                log.info("the end of pid %d is left to Ray: %s", pid, error)
                await asyncio.Event().wait()
            else:
                return None


async def _served_by(standby: Standby) -> dict[str, Started]:
    try:
        async with asyncio.timeout(_ADOPT_S):
            response: dict[str, Started] = await standby.handle.served_roles.remote()
            return response
    except (RayError, TimeoutError) as error:
        log.warning("%s does not say what it serves: %r", standby.name, error)
        return {}

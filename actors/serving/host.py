"""The roles that one process serves. A role is what an actor of that name serves: ``offsets-3``, ``log-0``.

An actor serves its own role, a standby any number of others. To take over a role, the successor gets an epoch of it,
requests the predecessor to resign, opens what belongs to the role, and listens. The request is optional and keeps the
gap short: the epoch fences a predecessor that was not reached or does not resign.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from ray.exceptions import RayError

from muster.actors.runtime.started import Started
from muster.actors.wire.internal.listener import Server
from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

_HAND_OVER_S = 5.0
"""How long a predecessor may take to resign. It waits that long for its own disk, too."""

Listen = Callable[[Server, str, int], Awaitable[Started]]
"""Makes a server listen for gateways, for an epoch, under a name that no other listener of the process has."""
S = TypeVar("S")


class NotServing(RuntimeError):
    """Another process serves this actor's role, or no process serves it yet."""


class Served(Protocol):
    """A role that was opened under one epoch."""

    @property
    def server(self) -> Server:
        """Its internal listener. The host starts and stops it."""

    def follow(self, view: ClusterView) -> None:
        """Apply a newer view."""

    def begin(self) -> None:
        """Begin to serve: it listens from now on."""

    async def resign(self) -> None:
        """Answer waiting requests, and close what the successor opens."""

    async def finish(self) -> None:
        """Finish the remaining work. No client waits for it."""


class Opener(Protocol):
    """Opens the roles of one kind."""

    async def prepare(self) -> None:
        """Do what needs no epoch, to keep :meth:`open` short. May be called again."""

    async def open(self, number: int, epoch: int, view: ClusterView, failed: Callable[[], None]) -> Served:
        """Open the role ``<kind>-<number>``; the role calls ``failed`` when it can no longer be served here.

        Raises LogError if a log cannot be opened, FencedEpoch or Superseded if a higher epoch was there.
        """

    async def close(self) -> None:
        """Undo :meth:`prepare`."""


@dataclass(slots=True)
class _Role:
    served: Served
    epoch: int
    started: Started | None = None


class RoleHost:
    """Serves roles until they are handed over or fail. For one event loop."""

    def __init__(self, openers: Mapping[str, Opener], listen: Listen, fail: Callable[[], None] | None = None) -> None:
        """Take ``openers`` by kind, which is the name without its number.

        ``fail`` is called when a role fails; without it, only that role ends.
        """
        self._openers = openers
        self._listen = listen
        self._fail = fail
        self._view: ClusterView | None = None
        self._roles: dict[str, _Role] = {}
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._ended = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def started(self) -> dict[str, Started]:
        """The roles that are served now."""
        return {name: role.started for name, role in self._roles.items() if role.started}

    def served(self, kind: type[S]) -> dict[str, S]:
        """Return the objects of that type that serve now, by role."""
        roles = {name: role.served for name, role in self._roles.items() if role.started}
        return {name: served for name, served in roles.items() if isinstance(served, kind)}

    def find(self, kind: type[S], name: str) -> S:
        """Return the object that serves that role. Raises NotServing."""
        found = self.served(kind).get(name)
        if found is None:
            raise NotServing(f"{name} is not served here")
        return found

    async def prepare(self) -> None:
        """Do what needs no epoch."""
        await asyncio.gather(*(opener.prepare() for opener in self._openers.values()))

    def follow(self, view: ClusterView) -> None:
        self._view = view
        for role in self._roles.values():
            role.served.follow(view)

    async def serve(self, name: str, epoch: int, view: ClusterView, predecessor: Any = None) -> Started:
        """Take over the role under an epoch that no other process has. What is served here for it is stopped first.

        ``predecessor`` is the Ray handle of an actor that has ``hand_over``. The errors are those of ``Opener.open``.
        """
        kind, _, number = name.rpartition("-")
        async with self._changing[name]:
            await self._let_go(name)
            if predecessor is not None:
                await _request_handover(predecessor, name)
            if self._view is None or self._view.order < view.order:
                self._view = view
            failed = partial(self._failed, name, epoch)
            role = _Role(await self._openers[kind].open(int(number), epoch, self._view, failed), epoch)
            self._roles[name] = role
            try:
                role.served.follow(self._view)  # it may have changed meanwhile
                role.started = await self._listen(role.served.server, f"{name}-{epoch}", epoch)
                role.served.begin()
            except BaseException:
                await self._let_go(name)
                raise
        log.info("%s: epoch %d serves", name, epoch)
        return role.started

    def _failed(self, name: str, epoch: int) -> None:
        """Stop serving the role, most likely because a newer epoch has it."""
        if self._fail is not None:
            self._fail()
        else:
            self._spawn(self.hand_over(name, epoch))

    async def hand_over(self, name: str, epoch: int | None = None) -> None:
        """Stop serving: answer waiting requests with a retriable error, write what is pending, close the logs.

        With an epoch, only if the role is served under that one. Does nothing if it is not served here.
        """
        async with self._changing[name]:
            role = self._roles.get(name)
            if role is not None and epoch in (None, role.epoch):
                await self._let_go(name)

    async def _let_go(self, name: str) -> None:
        role = self._roles.pop(name, None)
        if role is None:
            return
        async with self._ended:
            self._ended.notify_all()
        try:
            await role.served.resign()
        finally:
            await role.served.server.stop()
            self._spawn(role.served.finish())
        log.info("%s: epoch %d is served here no more", name, role.epoch)

    async def until_over(self, name: str, epoch: int) -> None:
        """Return when the role is not served here under that epoch."""

        def over() -> bool:
            role = self._roles.get(name)
            return role is None or role.epoch != epoch

        async with self._ended:
            await self._ended.wait_for(over)

    async def stop(self) -> None:
        """Stop serving all roles, without a successor."""
        await asyncio.gather(*(self.hand_over(name) for name in list(self._roles)))
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        await asyncio.gather(*(opener.close() for opener in self._openers.values()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _request_handover(predecessor: Any, name: str) -> None:
    try:
        async with asyncio.timeout(_HAND_OVER_S):
            await predecessor.hand_over.remote(name)
    except (RayError, TimeoutError) as error:
        log.warning("%s is not handed over, it is taken: %r", name, error)

"""The actors that serve one role each: ``offsets-<p>``, ``transactions-<p>`` and ``log-<i>``."""

from __future__ import annotations

import asyncio
import os
from typing import Any, ClassVar

from muster.actors.runtime.actor import Actor
from muster.actors.runtime.follow import ViewFollower
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.serving.host import Opener, RoleHost
from muster.placement.view import ClusterView


class RoleActor(Actor):
    """Serves the role of its own name. The controller calls ``prepare``, then ``take_over``, in every new process."""

    kind: ClassVar[str]
    """Its name without the number."""

    def __init__(self, settings: ClusterSettings, secret: bytes, number: int) -> None:
        super().__init__(settings, secret, f"{self.kind}-{number}")
        self._ready: asyncio.Future[None] | None = None
        self._host = RoleHost({self.kind: self._opener()}, self._listen, fail=lambda: os._exit(1))

    def _opener(self) -> Opener:
        raise NotImplementedError

    async def prepare(self) -> Started | None:
        """Do everything that needs no epoch, to keep :meth:`take_over` short.

        Returns the result of ``take_over`` if this actor already serves.
        """
        if self._ready is None or (self._ready.done() and self._ready.exception()):
            self._ready = asyncio.ensure_future(self._prepare())
        await asyncio.shield(self._ready)
        return self._host.started.get(self.name)

    async def _prepare(self) -> None:
        self._watch_controller()
        await self._check_storage()
        await self._host.prepare()
        self._follower = ViewFollower(self.settings, self.name)
        self._view = await self._follower.first()
        self._follower.follow(self._on_view)

    def _on_view(self, view: ClusterView) -> None:
        self._view = view
        self._host.follow(view)

    async def take_over(self, epoch: int, predecessor: Any = None) -> Started:
        """Start serving under an epoch that no other process has: see :meth:`RoleHost.serve`."""
        await self.prepare()
        started = await self._host.serve(self.name, epoch, self._view, predecessor)
        self._rest()
        return started

    async def hand_over(self, role: str, epoch: int | None = None) -> None:
        """Stop serving the role: see :meth:`RoleHost.hand_over`."""
        await self._host.hand_over(role, epoch)

    async def stop(self) -> None:
        """Stop serving, without a successor. Everything acknowledged is durable already."""
        if self._ready is None:
            return
        self._follower.stop()
        await self._host.stop()


class CoordinatorActor(RoleActor):
    """Serves the partition of a topic of coordinators whose number is its own."""

    topic: ClassVar[str]

"""The Ray actor ``offsets-<p>``: a thin shell around :class:`PartitionHost`."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from muster.actors.audit.commits import CommitKey as CommitKey
from muster.actors.audit.commits import Step
from muster.actors.audit.outbox import Batch
from muster.actors.offsets.held import Version, news
from muster.actors.offsets.serving import PartitionHost
from muster.actors.runtime.actor import Actor
from muster.actors.runtime.follow import ViewFollower
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.placement.mapping.registration import Registration
from muster.placement.view import ClusterView


class NotServing(RuntimeError):
    """Another process serves this offsets actor's partition, or no process serves it yet."""


class OffsetsActor(Actor):
    """``offsets-<p>``: one partition of ``__consumer_offsets`` and the groups that hash to it."""

    def __init__(self, settings: ClusterSettings, secret: bytes, partition: int) -> None:
        super().__init__(settings, secret, f"offsets-{partition}")
        self._partition = partition
        self._ready: asyncio.Future[None] | None = None
        self._host = PartitionHost(settings, secret, self._listen, fail=lambda: os._exit(1))

    async def prepare(self) -> Started | None:
        """Do everything that needs no epoch, to keep :meth:`take_over` short.

        Returns the result of ``take_over`` if this actor already serves.
        """
        if self._ready is None or (self._ready.done() and self._ready.exception()):
            self._ready = asyncio.ensure_future(self._prepare())
        await asyncio.shield(self._ready)
        return self._host.started.get(self._partition)

    async def _prepare(self) -> None:
        await self._check_storage()
        self._follower = ViewFollower(self.settings, self.name)
        self._view = await self._follower.first()
        self._follower.follow(self._on_view)

    def _on_view(self, view: ClusterView) -> None:
        self._view = view
        self._host.follow(view)

    async def take_over(self, epoch: int, predecessor: Any = None) -> Started:
        """Start serving under a leader epoch that no other process has: see :meth:`PartitionHost.serve`."""
        await self.prepare()
        started = await self._host.serve(self._partition, epoch, self._view, predecessor)
        self._rest()
        return started

    async def hand_over(self, partition: int, epoch: int | None = None) -> None:
        """Stop serving the partition: see :meth:`PartitionHost.hand_over`."""
        await self._host.hand_over(partition, epoch)

    async def registrations(self, known: Version | None = None) -> tuple[Registration, ...] | None:
        """Which client consumes for which group, or None if ``known`` is current. NotServing while a standby serves."""
        if self._partition not in self._host.started:
            raise NotServing(f"{self.name} does not serve")
        return news(self._host.registrations()[self._partition], known)

    async def audit_steps(self, session: str, received: int) -> Batch[CommitKey, Step]:
        """The commits that were seen: see :meth:`Outbox.take`. NotServing while a standby serves."""
        if self._partition not in self._host.started:
            raise NotServing(f"{self.name} does not serve")
        return self._host.audit_steps(self._partition, session, received)

    async def stop(self) -> None:
        """Answer waiting requests, write what is pending, and close the log. Registrations stay in place."""
        if self._ready is None:
            return
        self._follower.stop()
        await self._host.stop()

"""The Ray actor ``reconciler``, as thin as possible."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray

from muster.actors.audit.auditor import Auditor
from muster.actors.audit.over_ray import RaySources
from muster.actors.offsets.held import Known, Version
from muster.actors.reconciler.history import RepairHistory
from muster.actors.reconciler.reconciler import Comparison, Reconciler, Repaired
from muster.actors.runtime.actor import Actor
from muster.actors.runtime.event_writer import EventWriter
from muster.actors.runtime.follow import ViewFollower
from muster.actors.runtime.process import now_ms, wall_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.tables.compaction import Policy
from muster.actors.tables.schemas.cluster import REPAIRS
from muster.actors.tables.upkeep import TablesUpkeep
from muster.placement.mapping.registration import Registration
from muster.placement.view import ClusterView

_SETTLED_MS = 5_000
"""Added to attribution.pending.ms: by then, a gateway has settled what was pending."""


class ReconcilerActor(Actor):
    """``reconciler``: compares what Active coordinators hold with what ZooKeeper holds, and repairs the difference.

    Also runs the audit and the upkeep of the tables.
    """

    def __init__(self, settings: ClusterSettings, secret: bytes) -> None:
        super().__init__(settings, secret, "reconciler")

    async def _start(self) -> Started:
        self._follower = ViewFollower(self.settings, self.name)
        self._view = await self._follower.first()
        self._follower.follow(self._on_view)
        config = self.settings.config
        self._known = Known()
        self._repairs = EventWriter(
            Path(self.settings.storage), REPAIRS, self.name, flush_ms=config.metrics_events_flush_ms, now_ms=wall_ms
        )
        self._repairs.start()
        self._reconciler = Reconciler(
            self.settings.zookeeper,
            config.reconciler_interval_ms,
            self._registrations,
            max_writes_per_second=config.reconciler_max_writes_per_second,
            dry_run=config.reconciler_dry_run,
            access=self.settings.zookeeper_access,
            history=RepairHistory(self._repairs.add, wall_ms),
        )
        self._upkeep = TablesUpkeep(
            Path(self.settings.storage) / "metrics", Policy.of(config), now_ms=wall_ms, bucket=self.settings.location
        )
        self._upkeep.start()
        self._task = asyncio.get_running_loop().create_task(self._reconciler.run())
        self._audit = asyncio.get_running_loop().create_task(self._run_audit())
        return Started(pid=os.getpid(), node_id=self._node_and_address()[0])

    async def _run_audit(self) -> None:
        config = self.settings.config
        if config.audit_interval_ms:
            sources = RaySources(self.settings.namespace, lambda: self._view)
            wait_ms = config.attribution_pending_ms + _SETTLED_MS
            await Auditor(sources, interval_ms=config.audit_interval_ms, wait_ms=wait_ms, now_ms=now_ms).run()

    def _on_view(self, view: ClusterView) -> None:
        self._view = view

    async def _registrations(self) -> dict[int, tuple[Registration, ...]]:
        """Registrations of every offsets partition that is Active and responds; the others are not trusted."""
        known = self._known.versions()
        found = await self._of_standbys(known)
        active = [partition for partition, endpoint in self._view.offsets.items() if endpoint is not None]
        unserved = [partition for partition in active if partition not in found]
        queries = (self._call(f"offsets-{each}", known.get(each)) for each in unserved)
        responses = await asyncio.gather(*queries, return_exceptions=True)
        for partition, response in zip(unserved, responses, strict=True):
            if not isinstance(response, BaseException):
                found[partition] = response
        return {partition: self._known.take(partition, response) for partition, response in found.items()}

    async def _of_standbys(self, known: Mapping[int, Version]) -> dict[int, tuple[Registration, ...] | None]:
        """Registrations of the partitions that standbys serve, if any."""
        actors = await asyncio.to_thread(ray.util.list_named_actors, True)
        names = [actor["name"] for actor in actors if actor["namespace"] == self.settings.namespace]
        calls = (self._call(name, known) for name in names if name.startswith("standby-"))
        responses = await asyncio.gather(*calls, return_exceptions=True)
        found: dict[int, tuple[Registration, ...] | None] = {}
        for response in responses:
            found.update({} if isinstance(response, BaseException) else response)
        return found

    async def _call(self, name: str, known: Any) -> Any:
        """Return an actor's registrations, None where they are still the ``known`` ones; a standby's by partition."""
        handle = await asyncio.to_thread(ray.get_actor, name, self.settings.namespace)
        async with asyncio.timeout(5):
            return await handle.registrations.remote(known)

    async def status(self) -> dict[str, Any]:
        """Return rounds, repairs by kind, and divergence."""
        await self.start()
        status: dict[str, Any] = self._reconciler.status()
        return status

    async def mapping(self) -> dict[str, bytes]:
        """Return ZooKeeper's content, by path. Raises MappingUnknown while ZooKeeper is unavailable."""
        await self.start()
        return await self._reconciler.nodes()

    async def compare(self) -> Comparison:
        """How the mapping differs now. Raises MappingUnknown."""
        await self.start()
        return await self._reconciler.compare()

    async def repair(self) -> Repaired:
        """Repair the mapping now. Raises MappingUnknown."""
        await self.start()
        return await self._reconciler.repair()

    async def stop(self) -> None:
        if self._started is None:
            return
        self._follower.stop()
        self._task.cancel()
        self._audit.cancel()
        await asyncio.to_thread(self._reconciler.close)
        await asyncio.to_thread(self._upkeep.close)
        await self._repairs.close()

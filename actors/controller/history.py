"""The controller's tables, ``lifecycle`` and ``faults``, and the rows about the controller itself."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import ray

from muster.actors.controller.lifecycle import CONTROLLER, Event, Lifecycle, Server
from muster.actors.faults.history import FaultHistory
from muster.actors.runtime.event_writer import EventWriter, upload_tables
from muster.actors.runtime.process import wall_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.tables.schemas.cluster import FAULTS, LIFECYCLE


class ControllerHistory:
    """For the controller's process, from its start; no method blocks or raises."""

    def __init__(self, settings: ClusterSettings) -> None:
        storage, flush_ms = Path(settings.storage), settings.config.metrics_events_flush_ms
        self._lifecycle = EventWriter(storage, LIFECYCLE, CONTROLLER, flush_ms=flush_ms, now_ms=wall_ms)
        self._faults = EventWriter(
            storage, FAULTS, CONTROLLER, flush_ms=flush_ms, now_ms=wall_ms, collect=self._collect_faults
        )
        self.lifecycle = Lifecycle(self._lifecycle.add, wall_ms)
        self.faults = FaultHistory(self._faults.add, wall_ms)
        self._settings = settings
        self._own = Server(os.getpid(), ray.get_runtime_context().get_node_id())
        self.lifecycle.controller(Event.STARTING, self._own)

    async def _collect_faults(self) -> None:
        self.faults.collect()

    def begins(self, found: Collection[str]) -> None:
        """Begin to write files, and to upload them; ``found`` are the actors that a predecessor left."""
        upload_tables(self._settings)
        self.lifecycle.found(found)
        self._lifecycle.start()
        self._faults.start()

    def serves(self, epoch: int) -> None:
        """Record that the controller serves under that controller epoch."""
        self._own = replace(self._own, epoch=epoch)
        self.lifecycle.controller(Event.SERVING, self._own)

    @contextmanager
    def moving(self, node_id: str) -> Iterator[None]:
        """In this context, a controller on that node replaces this one; if that fails, this one continues to serve."""
        self.lifecycle.controller(Event.MOVED, self._own, f"to node {node_id}")
        try:
            yield
        except Exception as error:
            self.lifecycle.controller(Event.SERVING, self._own, f"it could not move: {error}")
            raise

    async def stopped(self) -> None:
        """Stop: write the last rows."""
        self.lifecycle.controller(Event.STOPPED, self._own)
        await self._lifecycle.close()
        await self._faults.close()

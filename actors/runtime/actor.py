"""The Ray actors, as thin as they can be: they make the parts, connect them, and start and stop them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import ray

from actors.audit.auditor import Auditor
from actors.audit.commits import Key as CommitKey
from actors.audit.commits import Step
from actors.audit.outbox import Batch
from actors.audit.over_ray import RaySources
from actors.config import in_force, log_config
from actors.controller.admin import Started
from actors.log.history import LogHistory
from actors.log.server import LogServer
from actors.log.service import LogService
from actors.log.weight import TopicPartition, Weights
from actors.offsets.held import Known, Version, news
from actors.offsets.serving import PartitionHost
from actors.reconciler.history import RepairHistory
from actors.reconciler.reconciler import Comparison, Reconciler, Repaired
from actors.runtime.event_writer import EventWriter
from actors.runtime.follow import ViewFollower
from actors.runtime.process import log_to_file, now_ms, socket_path, wall_ms
from actors.runtime.settings import ClusterSettings
from actors.runtime.storage import check_shared
from actors.tables.compaction import Policy
from actors.tables.schemas.cluster import REPAIRS
from actors.tables.upkeep import TablesUpkeep
from actors.wire.server import Server
from placement.epochs import next_epoch, take_actor_epoch, when_superseded
from placement.mapping.registration import Registration
from placement.view import ClusterView
from placement.zookeeper.client import ZooKeeperClient, connect

log = logging.getLogger(__name__)

_ZOOKEEPER_S = 15.0
_SETTLED_MS = 5_000
"""After attribution.pending.ms, a gateway has settled what waited."""


class NotServing(RuntimeError):
    """An offsets actor's partition is served by somebody else, or by nobody yet."""


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or (host is not None and ip_address(host).is_loopback)
    except ValueError:
        return False


class Actor:
    """What all of them share. ``start`` is called whenever the process is new, and perhaps more than once."""

    def __init__(self, settings: ClusterSettings, secret: bytes, name: str) -> None:
        self.settings = settings
        self.secret = secret
        self.name = name
        self._started: asyncio.Future[Started] | None = None
        log_to_file(Path(settings.storage), name)

    async def start(self) -> Started:
        """Come up; the same answer however often it is asked."""
        if self._started is None or (self._started.done() and self._started.exception()):
            self._started = asyncio.ensure_future(self._start_checked())
        return await asyncio.shield(self._started)

    async def _start_checked(self) -> Started:
        await self._check_storage()
        return await self._start()

    async def _check_storage(self) -> None:
        await asyncio.to_thread(check_shared, Path(self.settings.storage), self.settings.cluster_id)

    async def _start(self) -> Started:
        raise NotImplementedError

    async def ping(self) -> tuple[int, str]:
        """Pid and node; whoever answers is not paused and does not hang."""
        return os.getpid(), ray.get_runtime_context().get_node_id()

    async def park(self, pid: int) -> None:
        """Returns only when this is not the process that was started: else Ray tells the caller of its death."""
        if pid == os.getpid():
            await asyncio.Event().wait()

    async def end(self, pid: int) -> None:
        """End the process at once if it is that one, which others take for dead."""
        if pid == os.getpid():
            os._exit(1)

    def _node(self) -> tuple[str, str]:
        address = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        return ray.get_runtime_context().get_node_id(), str(address)

    async def _listen(self, server: Server, name: str, epoch: int = -1) -> Started:
        """Listen for gateways; on loopback only where the gateways do (a Ray of one node)."""
        node_id, host = self._node()
        if _is_loopback(self.settings.host):
            host = "127.0.0.1"
        path = socket_path(self.settings.cluster_id, name)
        ports = self.settings.config.actor_ports
        endpoint = await server.start(node_id=node_id, host=host, path=path, ports=ports)
        return Started(pid=os.getpid(), node_id=node_id, endpoint=endpoint, epoch=epoch)

    async def _zookeeper(self) -> ZooKeeperClient:
        return await asyncio.to_thread(connect, self.settings.zookeeper, timeout_s=_ZOOKEEPER_S)


class LogActor(Actor):
    """``log-<i>``: the topic partitions that :meth:`ClusterView.log_of` gives it."""

    def __init__(self, settings: ClusterSettings, secret: bytes, index: int) -> None:
        super().__init__(settings, secret, f"log-{index}")
        self._index = index
        self._tasks: set[asyncio.Task[None]] = set()

    async def _start(self) -> Started:
        self._zk = await self._zookeeper()
        self._epoch = await asyncio.to_thread(take_actor_epoch, self._zk, self.name)
        self._follower = ViewFollower(self.settings, self.name)
        self._view = await self._follower.first()
        config, storage = self.settings.config, Path(self.settings.storage)
        self._history = LogHistory(
            storage,
            self._index,
            flush_ms=config.metrics_end_offsets_flush_ms,
            topics=lambda: self._view,
            now_ms=wall_ms,
        )
        self._service = LogService(
            storage=storage,
            config=log_config(in_force(config, self._view.configs)),
            topics=lambda: self._view,
            index=self._index,
            next_epoch=self._next_epoch,
            on_open=self._history.opened,
        )
        self._service.start_upkeep()
        self._history.start()
        self._follower.follow(self._on_view)
        self._server = Server(LogServer(self._service), self.secret)
        await asyncio.to_thread(when_superseded, self._zk, self._epoch, lambda: os._exit(1))
        return await self._listen(self._server, self.name)

    def _on_view(self, view: ClusterView) -> None:
        self._view = view
        self._service.configure(log_config(in_force(self.settings.config, view.configs)))
        task = asyncio.get_running_loop().create_task(self._service.view_changed(view))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _next_epoch(self, topic: str, partition: int) -> int:
        return await asyncio.to_thread(next_epoch, self._zk, topic, partition, self.name, holder=self._epoch)

    async def audit_weights(
        self, questions: list[tuple[TopicPartition, tuple[int, ...]]]
    ) -> dict[TopicPartition, Weights]:
        """Bytes before offsets: see :meth:`LogService.weights`."""
        return await self._service.weights(questions)

    async def stop(self) -> None:
        """Close the logs; nothing that was acknowledged waits for this."""
        if self._started is None:
            return
        self._follower.stop()
        await self._server.stop()
        await self._service.close()
        await self._history.close()
        await asyncio.to_thread(self._zk.shut)


class OffsetsActor(Actor):
    """``offsets-<p>``: one partition of ``__consumer_offsets`` and the groups that hash to it."""

    def __init__(self, settings: ClusterSettings, secret: bytes, partition: int) -> None:
        super().__init__(settings, secret, f"offsets-{partition}")
        self._partition = partition
        self._ready: asyncio.Future[None] | None = None
        self._host = PartitionHost(settings, secret, self._listen, fail=lambda: os._exit(1))

    async def prepare(self) -> Started | None:
        """Do all that needs no epoch, so that :meth:`take_over` is short. What it said if it serves already."""
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
        """Serve under a leader epoch that nobody else has: see :meth:`PartitionHost.serve`."""
        await self.prepare()
        return await self._host.serve(self._partition, epoch, self._view, predecessor)

    async def hand_over(self, partition: int, epoch: int | None = None) -> None:
        """Serve it no more: see :meth:`PartitionHost.hand_over`."""
        await self._host.hand_over(partition, epoch)

    async def registrations(self, known: Version | None = None) -> tuple[Registration, ...] | None:
        """Who consumes for which group; None if that is what is ``known``. NotServing while a standby serves."""
        if self._partition not in self._host.started:
            raise NotServing(f"{self.name} does not serve")
        return news(self._host.registrations()[self._partition], known)

    async def audit_steps(self, session: str, received: int) -> Batch[CommitKey, Step]:
        """What commits were seen: see :meth:`Outbox.take`. NotServing while a standby serves."""
        if self._partition not in self._host.started:
            raise NotServing(f"{self.name} does not serve")
        return self._host.audit_steps(self._partition, session, received)

    async def stop(self) -> None:
        """Answer what waits, write what is pending, close the log. No registration is removed."""
        if self._ready is None:
            return
        self._follower.stop()
        await self._host.stop()


class ReconcilerActor(Actor):
    """``reconciler``: compares what Active coordinators hold with what ZooKeeper holds, and repairs.

    Beside it the audit and the upkeep of the tables.
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
            history=RepairHistory(self._repairs.add, wall_ms),
        )
        self._upkeep = TablesUpkeep(Path(self.settings.storage) / "metrics", Policy.of(config), now_ms=wall_ms)
        self._upkeep.start()
        self._task = asyncio.get_running_loop().create_task(self._reconciler.run())
        self._audit = asyncio.get_running_loop().create_task(self._run_audit())
        return Started(pid=os.getpid(), node_id=self._node()[0])

    async def _run_audit(self) -> None:
        config = self.settings.config
        if config.audit_interval_ms:
            sources = RaySources(self.settings.namespace, lambda: self._view)
            wait_ms = config.attribution_pending_ms + _SETTLED_MS
            await Auditor(sources, interval_ms=config.audit_interval_ms, wait_ms=wait_ms, now_ms=now_ms).run()

    def _on_view(self, view: ClusterView) -> None:
        self._view = view

    async def _registrations(self) -> dict[int, tuple[Registration, ...]]:
        """Of every offsets partition that is Active and answers; the others are not trusted."""
        known = self._known.versions()
        found = await self._of_standbys(known)
        active = [partition for partition, endpoint in self._view.offsets.items() if endpoint is not None]
        asked = [partition for partition in active if partition not in found]
        questions = (self._ask(f"offsets-{each}", known.get(each)) for each in asked)
        answers = await asyncio.gather(*questions, return_exceptions=True)
        for partition, answer in zip(asked, answers, strict=True):
            if not isinstance(answer, BaseException):
                found[partition] = answer
        return {partition: self._known.take(partition, answer) for partition, answer in found.items()}

    async def _of_standbys(self, known: Mapping[int, Version]) -> dict[int, tuple[Registration, ...] | None]:
        """Of the partitions that standbys serve, if any does."""
        actors = await asyncio.to_thread(ray.util.list_named_actors, True)
        names = [actor["name"] for actor in actors if actor["namespace"] == self.settings.namespace]
        asked = (self._ask(name, known) for name in names if name.startswith("standby-"))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        found: dict[int, tuple[Registration, ...] | None] = {}
        for answer in answers:
            found.update({} if isinstance(answer, BaseException) else answer)
        return found

    async def _ask(self, name: str, known: Any) -> Any:
        """What an actor says of its registrations, None where it is what is known; a standby by partition."""
        handle = await asyncio.to_thread(ray.get_actor, name, self.settings.namespace)
        async with asyncio.timeout(5):
            return await handle.registrations.remote(known)

    async def status(self) -> dict[str, Any]:
        """Rounds, repairs by kind, divergence."""
        await self.start()
        status: dict[str, Any] = self._reconciler.status()
        return status

    async def mapping(self) -> dict[str, bytes]:
        """What ZooKeeper holds, by path. MappingUnknown while it is away."""
        await self.start()
        return await self._reconciler.nodes()

    async def compare(self) -> Comparison:
        """How the mapping differs now. MappingUnknown."""
        await self.start()
        return await self._reconciler.compare()

    async def repair(self) -> Repaired:
        """Repair it now. MappingUnknown."""
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

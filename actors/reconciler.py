"""Keeps the client-to-group mapping in ZooKeeper true, both ways: what is missing, wrong, or owned by nobody.

Why it is needed although every coordinator writes its own registrations: an operator may delete nodes, a
coordinator may die between a change and its write, and a zombie may write late. What it does is decided by
:func:`placement.repair.plan`; here are the reading, the doing and the counting.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from placement.hashing import partition_for
from placement.layout import CLIENT_GROUP_ID, decode_topic, topic_path
from placement.mapping import is_kop_path, is_registration_path
from placement.mapping_nodes import MappingNodes
from placement.mirror import Mirror
from placement.registration import Registration
from placement.repair import Node, Plan, Suspect, plan
from placement.view import OFFSETS_TOPIC
from placement.zookeeper import ZooKeeperUnreachable, client

log = logging.getLogger(__name__)

T = TypeVar("T")
Registrations = Callable[[], Awaitable[Mapping[int, tuple[Registration, ...]]]]

_ASK_S = 5.0
_SNAPSHOT_S = 2.0
_AWAY = "ZooKeeper is away, or has no __consumer_offsets"


class Reconciler:
    """Compares and repairs once per ``interval_ms``.

    ``registrations`` gives what each Active offsets partition holds, by partition; one that is missing in the
    answer is not trusted, and nothing of it is touched. Everything is called from one event loop; waiting for
    ZooKeeper happens on a thread.
    """

    def __init__(self, zk_hosts: str, interval_ms: int, registrations: Registrations) -> None:
        self._interval_s = interval_ms / 1000
        self._registrations = registrations
        self._zk = client(zk_hosts)
        self._mirror = Mirror(self._zk, CLIENT_GROUP_ID)
        self._nodes = MappingNodes(self._zk, timeout_s=_ASK_S)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reconciler")
        self._started = False
        self._offsets_partitions: int | None = None
        self._suspects: frozenset[Suspect] = frozenset()
        self._counts: Counter[str] = Counter()
        self._repairs: Counter[str] = Counter()
        self._divergent_since: float | None = None
        self._last_round_ms = 0.0
        self._trusted: tuple[int, ...] = ()
        self._trouble: str | None = None

    async def run(self) -> None:
        """Reconcile until cancelled; then everything is closed. ZooKeeper need not be there."""
        try:
            while True:
                await self._guarded_round()
                await asyncio.sleep(self._interval_s)
        finally:
            await asyncio.to_thread(self.close)

    async def round(self) -> Plan | None:
        """Compare once and repair; what was decided. None if ZooKeeper is away: then nothing is known."""
        if not self._started:
            self._started = True
            self._zk.start_async()
            self._mirror.start()
        started = time.monotonic()
        # ZooKeeper first: what a coordinator says after that is newer, so it is at worst a needless attempt.
        seen = await self._off_loop(self._see)
        if seen is None:
            self._counts["skipped"] += 1
            self._suspects = frozenset()
            return None
        nodes, partitions = seen
        held = await self._registrations()
        todo = plan(
            [one for some in held.values() for one in some],
            nodes,
            trusted=frozenset(held),
            suspects=self._suspects,
            partition_of=lambda group: partition_for(group, partitions),
        )
        await self._off_loop(self._apply, todo)
        self._account(todo, tuple(sorted(held)), started)
        return todo

    def status(self) -> dict[str, Any]:
        """Rounds, repairs by kind since the start, and how long ZooKeeper has differed (None: it does not)."""
        since = self._divergent_since
        return {
            "rounds": self._counts["rounds"],
            "skipped_rounds": self._counts["skipped"],
            "failed_rounds": self._counts["failed"],
            "repairs": dict(sorted(self._repairs.items())),
            "late_repairs": self._counts["late"],
            "suspects": len(self._suspects),
            "divergent_for_ms": None if since is None else round((time.monotonic() - since) * 1000),
            "trusted_partitions": list(self._trusted),
            "last_round_ms": round(self._last_round_ms, 1),
            "zookeeper_connected": bool(self._zk.connected),
            "full_reads": self._mirror.full_reads,
            "node_reads": self._mirror.node_reads,
            "trouble": self._trouble,
        }

    def close(self) -> None:
        """Stop; blocks until it has. What is in ZooKeeper stays."""
        self._zk.shut()
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._started:
            self._started = False
            self._mirror.stop()

    async def _guarded_round(self) -> None:
        try:
            done = await self.round()
            self._trouble = None if done is not None else _AWAY
        except ZooKeeperUnreachable:  # the client has said so
            self._trouble = _AWAY
            self._counts["skipped"] += 1
            self._suspects = frozenset()
        except Exception as error:
            if repr(error) != self._trouble:
                log.exception("a round of the reconciler failed; trying again every %g s", self._interval_s)
            self._trouble = repr(error)
            self._counts["failed"] += 1
            self._suspects = frozenset()

    async def _off_loop(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _see(self) -> tuple[dict[str, Node], int] | None:
        """The nodes, and how many partitions ``__consumer_offsets`` has; None while that cannot be known."""
        nodes = self._mirror.snapshot(timeout_s=_SNAPSHOT_S)
        if nodes is not None and self._offsets_partitions is None and (topic := self._nodes.read(_OFFSETS_PATH)):
            self._offsets_partitions = decode_topic(OFFSETS_TOPIC, topic.data, {}).partitions
        return None if nodes is None or self._offsets_partitions is None else (nodes, self._offsets_partitions)

    def _apply(self, todo: Plan) -> None:
        for create in todo.creates:
            self._count("create", create.path, self._nodes.create(create.path, create.data))
        for change in todo.sets:
            self._count("set", change.path, self._nodes.set_if(change.path, change.data, change.version))
        for removal in todo.removes:
            self._count("remove", removal.path, self._nodes.remove_if(removal.path, removal.still_applies))

    def _count(self, action: str, path: str, done: bool) -> None:
        if not done:
            self._counts["late"] += 1
            return
        self._repairs[f"{action}_{_kind(path)}"] += 1
        log.info("%s %s", action, path)

    def _account(self, todo: Plan, trusted: tuple[int, ...], started: float) -> None:
        self._counts["rounds"] += 1
        self._suspects = todo.suspects
        self._trusted = trusted
        self._last_round_ms = (time.monotonic() - started) * 1000
        if todo.empty:
            self._divergent_since = None
        elif self._divergent_since is None:
            self._divergent_since = started


_OFFSETS_PATH = topic_path(OFFSETS_TOPIC)


def _kind(path: str) -> str:
    if is_registration_path(path):
        return "registration"
    return "kop" if is_kop_path(path) else "folder"

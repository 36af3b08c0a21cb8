"""Keeps the client-to-group mapping in ZooKeeper correct: repairs nodes that are missing, wrong, or have no owner.

Every coordinator writes its own registrations. The reconciler is still needed: an operator may delete nodes, a
coordinator may die between a change and its write, and a zombie may write late.
:mod:`muster.placement.mapping.repair` decides what to do; this module reads and writes, and
:mod:`muster.actors.reconciler.counts` counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

from muster.actors.reconciler.counts import RepairCounts, action_name
from muster.actors.reconciler.history import RepairHistory
from muster.actors.runtime.memory import gc_paused
from muster.actors.runtime.rate_limiter import RateLimiter
from muster.placement.hashing import partition_for
from muster.placement.layout import CLIENT_GROUP_ID, decode_topic, topic_path
from muster.placement.mapping.divergence import Aside, Divergence
from muster.placement.mapping.registration import Registration
from muster.placement.mapping.repair import NOTHING, Action, Memory, Node, Plan, Planning, Suspect
from muster.placement.mapping.writes import BATCH, MappingNodes, Outcome, WriteIf
from muster.placement.view import OFFSETS_TOPIC
from muster.placement.zookeeper.access import ANYONE, Access
from muster.placement.zookeeper.client import ZooKeeperUnreachable, client
from muster.placement.zookeeper.mirror import Mirror

log = logging.getLogger(__name__)

T = TypeVar("T")
Held = Mapping[int, tuple[Registration, ...]]
Registrations = Callable[[], Awaitable[Held]]

MAX_WRITES_PER_SECOND = 50_000
_REQUEST_TIMEOUT_S = 5.0
_SNAPSHOT_S = 2.0
_UNAVAILABLE = "ZooKeeper is unavailable, or has no __consumer_offsets"
_MAX_WRITING_S = 5.0
"""After this the round ends, and the next one compares again."""
_SOONEST_S = 1.0
"""Minimum time between rounds that agree, or that come early because nodes were deleted."""
_GROUPS_REMEMBERED = 4096
"""How many groups' offsets partitions are cached while a plan is made."""
_NAMED = 20
"""How many writes of a round the log names."""
_REPAIR_ROUNDS = 8
"""Two for each level of nodes, since the lower levels have to be removed first, and two more."""


class MappingUnknown(ConnectionError):
    """The state of the mapping is not known: ZooKeeper is unavailable."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of coordinators with ZooKeeper at one moment."""

    divergences: tuple[Divergence, ...]
    left_alone: tuple[Aside, ...]
    trusted: tuple[int, ...]
    """Offsets partitions whose coordinators are Active."""
    registrations: int
    """How many registrations they hold."""
    nodes: int
    """How many nodes ZooKeeper holds, including those of hosts and clients."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """Result of a repair on demand."""

    done: tuple[tuple[str, str], ...]
    """``create``, ``set`` or ``remove``, and the path, in order."""
    left: Comparison
    """The comparison afterwards."""


class Reconciler:
    """Compares and repairs once per ``interval_ms``, and soon after many nodes were deleted.

    ``registrations`` returns what each Active offsets partition holds, by partition. A partition that is missing there
    is not trusted, and nothing of it is touched. A partition without changes returns the same tuple again, which
    saves reading through it. All methods are called from one event loop; waiting for ZooKeeper happens in a thread.
    With ``dry_run`` it only compares, except for :meth:`repair`.
    """

    def __init__(
        self,
        zk_hosts: str,
        interval_ms: int,
        registrations: Registrations,
        *,
        max_writes_per_second: int = MAX_WRITES_PER_SECOND,
        dry_run: bool = False,
        access: Access = ANYONE,
        history: RepairHistory | None = None,
    ) -> None:
        self._interval_s = interval_ms / 1000
        self._registrations = registrations
        self._dry_run = dry_run
        self._zk = client(zk_hosts, access)
        self._mirror = Mirror(self._zk, CLIENT_GROUP_ID, on_deleted=self._nodes_were_deleted)
        self._rate_limiter = RateLimiter(max_writes_per_second)
        self._nodes = MappingNodes(self._zk, timeout_s=_REQUEST_TIMEOUT_S, before_write=self._rate_limiter.wait)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reconciler")
        self._counts = RepairCounts()
        self._history = history
        self._round = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._deleted_at_round = 0
        self._offsets_partitions: int | None = None
        self._memory: Memory = NOTHING
        self._suspects: frozenset[Suspect] = frozenset()
        self._trouble: str | None = None

    async def run(self) -> None:
        """Reconcile until cancelled, then close everything. ZooKeeper may be unavailable."""
        try:
            while True:
                left = await self._guarded_round()
                if left:
                    continue
                await asyncio.sleep(min(_SOONEST_S, self._interval_s))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, self._interval_s - _SOONEST_S)):
                        await self._wake.wait()
        finally:
            await asyncio.to_thread(self.close)

    async def round(self) -> Plan | None:
        """Compare once and repair. Returns the plan; None if ZooKeeper is unavailable, so nothing is known."""
        async with self._round:
            return await self._compare_and_write(self._dry_run, [])

    async def compare(self) -> Comparison:
        """Compare now without changing anything. Raises MappingUnknown."""
        async with self._round:
            held, planning = await self._look()
            todo = await self._off_loop(planning.plan)
        return _comparison(todo, held)

    async def nodes(self) -> dict[str, bytes]:
        """Return ZooKeeper's content, data by path. Raises MappingUnknown."""
        self._start()
        nodes = await self._off_loop(self._mirror.snapshot, _SNAPSHOT_S)
        if nodes is None:
            raise MappingUnknown(_UNAVAILABLE)
        return {path: node.data for path, node in nodes.items()}

    async def repair(self) -> Repaired:
        """Run rounds now until nothing is left to repair. Raises MappingUnknown.

        Two rounds that agree are a second apart. This repairs in dry run, too, since it is an explicit request.
        """
        done: list[tuple[str, str]] = []
        for _ in range(_REPAIR_ROUNDS):
            async with self._round:
                todo = await self._compare_and_write(False, done)
            if todo is None:
                raise MappingUnknown(_UNAVAILABLE)
            if todo.empty:
                break
            await asyncio.sleep(_SOONEST_S)
        return Repaired(tuple(done), await self.compare())

    def status(self) -> dict[str, Any]:
        """Return rounds, repairs by kind since the start, what differs, and for how long (None: nothing differs)."""
        return {
            **self._counts.status(time.monotonic()),
            "dry_run": self._dry_run,
            "zookeeper_connected": bool(self._zk.connected),
            "full_reads": self._mirror.full_reads,
            "node_reads": self._mirror.node_reads,
            "trouble": self._trouble,
        }

    def close(self) -> None:
        """Stop; blocks until stopped. What is in ZooKeeper stays."""
        self._rate_limiter.end()
        self._zk.shut()
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._loop is not None:
            self._loop = None
            self._mirror.stop()

    def _start(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._zk.start_async()
            self._mirror.start()

    def _nodes_were_deleted(self) -> None:
        """Consider an early round. Called by the mirror's thread."""
        if (loop := self._loop) is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._consider_early_round)

    def _consider_early_round(self) -> None:
        """Members leave all the time; if more than a hundredth of all nodes are deleted, a round comes early."""
        if (self._mirror.deleted - self._deleted_at_round) * 100 > len(self._memory.seen):
            self._wake.set()

    async def _guarded_round(self) -> bool:
        """Run a round. Returns whether there is more to write at once."""
        try:
            todo = await self.round()
            self._trouble = None if todo is not None else _UNAVAILABLE
            return todo is not None and self._counts.deferred > 0
        except (ZooKeeperUnreachable, MappingUnknown):  # the client has logged it
            self._trouble = _UNAVAILABLE
            self._counts.skipped()
        except Exception as error:
            if repr(error) != self._trouble:
                log.exception("a round of the reconciler failed; trying again every %g s", self._interval_s)
            self._trouble = repr(error)
            self._counts.failed()
        self._suspects = frozenset()
        return False

    async def _compare_and_write(self, dry_run: bool, done: list[tuple[str, str]]) -> Plan | None:
        started = time.monotonic()
        self._wake.clear()
        self._deleted_at_round = self._mirror.deleted
        try:
            held, planning = await self._look()
        except MappingUnknown:
            self._counts.skipped()
            self._suspects = frozenset()
            return None
        trusted = tuple(sorted(held))
        if not dry_run:
            todo = await self._off_loop(self._write, planning, trusted, started, done)
        else:
            todo = await self._off_loop(self._decided, planning, trusted, started)
            if self._history is not None:
                await self._off_loop(self._history.planned, todo, self._counts)
        self._counts.rounds_took(time.monotonic() - started)
        return todo

    async def _look(self) -> tuple[Held, Planning]:
        """Return the coordinators' registrations, and the planning that compares them with ZooKeeper.

        Raises MappingUnknown.
        """
        self._start()
        # ZooKeeper first: what a coordinator reports after that is newer, so at worst a write is needless.
        nodes, partitions = await self._off_loop(self._see)
        held = await self._registrations()
        return held, await self._off_loop(self._planning, held, nodes, partitions)

    @gc_paused()
    def _planning(self, held: Held, nodes: Mapping[str, Node], partitions: int) -> Planning:
        return Planning(
            held,
            nodes,
            suspects=self._suspects,
            partition_of=lru_cache(_GROUPS_REMEMBERED)(lambda group: partition_for(group, partitions)),
            memory=self._memory,
        )

    def _decided(self, planning: Planning, trusted: tuple[int, ...], started_s: float) -> Plan:
        """Finish the plan; remember and count it."""
        todo = planning.plan()
        self._suspects, self._memory = todo.suspects, todo.memory
        self._counts.compared(todo, trusted, started_s)
        return todo

    async def _off_loop(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _see(self) -> tuple[Mapping[str, Node], int]:
        """Return the nodes, and the number of partitions of ``__consumer_offsets``.

        Raises MappingUnknown without either.
        """
        nodes = self._mirror.snapshot(timeout_s=_SNAPSHOT_S)
        if nodes is not None and self._offsets_partitions is None and (topic := self._nodes.read(_OFFSETS_PATH)):
            self._offsets_partitions = decode_topic(OFFSETS_TOPIC, topic.data, {}).partitions
        if nodes is None or self._offsets_partitions is None:
            raise MappingUnknown(_UNAVAILABLE)
        return nodes, self._offsets_partitions

    @gc_paused()
    def _write(
        self, planning: Planning, trusted: tuple[int, ...], started_s: float, done: list[tuple[str, str]]
    ) -> Plan:
        """Carry out the plan; creations start while it is still being made. Appends what was done to ``done``.

        Removals come last; each plan removes at most one level of nodes.
        """
        allowed = max(1, round(self._rate_limiter.per_second * _MAX_WRITING_S))
        batch = min(BATCH, self._rate_limiter.piece)
        decided: list[Plan] = []

        def creations() -> Iterator[tuple[str, bytes]]:
            creates = (create for some in planning for create in some)
            yield from ((create.path, create.data) for create in islice(creates, allowed))
            decided.append(self._decided(planning, trusted, started_s))  # while ZooKeeper is still at work

        try:
            outcomes = self._nodes.create(creations(), seen=planning.seen, batch=batch)
        finally:
            todo = decided[0] if decided else self._decided(planning, trusted, started_s)
        self._counts.deferred = max(0, len(todo.creates) + len(todo.sets) + len(todo.removes) - allowed)
        done += self._done(todo.creates, outcomes)
        allowed = max(0, allowed - len(todo.creates))
        for actions in (todo.sets[:allowed], todo.removes[: max(0, allowed - len(todo.sets))]):
            writes = (WriteIf(action.path, action.data, action.applies_to) for action in actions)
            done += self._done(actions, self._nodes.apply(writes, batch=batch))
        return todo

    def _done(self, actions: Sequence[Action], outcomes: Mapping[str, Outcome]) -> list[tuple[str, str]]:
        """Count and log the outcomes. Returns what was done."""
        named = {action.path: action for action in actions}
        done = []
        for path, outcome in outcomes.items():
            name = action_name(named[path])
            if self._history is not None:
                self._history.tried(named[path], outcome, self._counts, self._memory.seen.get(path))
            self._counts.tried(name, path, outcome)
            if outcome is Outcome.DONE:
                done.append((name, path))
        for name, path in done[:_NAMED]:
            log.info("%s %s", name, path)
        if len(done) > _NAMED:
            log.info("and %d more", len(done) - _NAMED)
        return done


_OFFSETS_PATH = topic_path(OFFSETS_TOPIC)


def _comparison(todo: Plan, held: Held) -> Comparison:
    return Comparison(
        divergences=todo.divergences,
        left_alone=todo.left_alone,
        trusted=tuple(sorted(held)),
        registrations=sum(map(len, held.values())),
        nodes=len(todo.memory.seen),
    )

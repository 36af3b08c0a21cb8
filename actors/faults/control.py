"""The controller's part in faults: accepts, distributes, counts and ends them, and sends signals to actors.

:class:`Cluster` hides where actors run and how gateways are informed: with Ray in a cluster, without Ray in tests.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from muster.actors.faults import processes
from muster.actors.faults.errors import FaultError, UnknownTarget
from muster.actors.faults.history import FaultHistory
from muster.actors.faults.holder import started_of
from muster.actors.faults.model import ActorFault, ContinueFault, Fault, HeldFault, KillFault, PauseFault, RequestFault
from muster.actors.faults.registry import Book, Entry, FaultRegistry, Target
from muster.actors.runtime.process import wall_ms

log = logging.getLogger(__name__)

_SWEEP_S = 0.1
_CONTROLLER = "controller"


class Process(NamedTuple):
    """The process of an actor."""

    pid: int
    node_id: str


class Cluster(Protocol):
    """Cluster, to the extent that faults need it."""

    @property
    def node_id(self) -> str:
        """The node of the controller."""

    def actor_of_group(self, group: str) -> str:
        """Return the offsets actor that owns the group."""

    def process_of(self, actor: str) -> Process:
        """Return the actor's current process. Raises UnknownTarget if it does not run."""

    def gateways(self) -> list[str]:
        """Names of the gateways that serve."""

    async def publish(self, book: Book, paused: set[str]) -> list[str]:
        """Send the book to every gateway. Returns live gateways that were late; does not wait for ``paused`` ones."""

    async def gather(self, paused: set[str]) -> None:
        """Have every gateway report what it injected."""

    async def run(self, node_id: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function in a process on that node."""


class FaultControl:
    """All methods are for the controller's event loop."""

    def __init__(self, registry: FaultRegistry, cluster: Cluster, history: FaultHistory | None = None) -> None:
        """``history`` records everything; None: nothing is recorded."""
        self._registry = registry
        self._cluster = cluster
        self._history = history or FaultHistory(lambda _: None, wall_ms)
        self._sweeper: asyncio.Task[None] | None = None
        self._publishing = asyncio.Lock()

    async def handle(self, what: str, *arguments: Any) -> dict[str, Any]:
        """Call a method below by name. Returns ``{"response": ...}`` or ``{"refused": TEXT, "kind": NAME}``."""
        try:
            return {"answer": await _METHODS[what](self, *arguments)}
        except FaultError as error:
            return {"refused": str(error), "kind": type(error).__name__}

    async def book(self) -> Book:
        """Return the faults that a starting gateway must know."""
        return self._registry.book()

    async def draw(self, fault_id: str) -> int:
        """Count a request that matched the fault; return its number, which decides, or 0 if the fault is over."""
        entry = self._registry.get(fault_id)
        hits = entry.hits if entry is not None else 0
        number = self._registry.draw(fault_id)
        if entry is not None:
            self._history.acted(entry, entry.hits - hits)
        return number

    async def report(self, counts: Mapping[str, int]) -> None:
        """How often a gateway injected faults that always act, by fault id."""
        self._registry.report(counts)
        for fault_id, count in counts.items():
            if (entry := self._registry.get(fault_id)) is not None:
                self._history.acted(entry, count)

    async def inject(self, fault: Fault, by: str) -> dict[str, Any]:
        """Inject a fault. Returns ``{"id": ID, "late_gateways": [...]}``: all other live gateways have it in force.

        An actor fault on the controller, or on the requesting gateway ``by``, is left to that gateway: ``{"id": ID,
        "left": {...}}`` says what it must do. Raises UnknownTarget if there is no such actor.
        """
        if isinstance(fault, ActorFault):
            return await self._inject_in_actor(fault, by)
        entry = self._registry.add(self._registry.next_id(), fault)
        self._history.injected(entry.id, fault)
        self._watch()
        log.info("fault %s: %s", entry.id, fault.to_json())
        return {"id": entry.id, "late_gateways": await self._publish()}

    async def _inject_in_actor(self, fault: ActorFault, by: str) -> dict[str, Any]:
        actor = fault.actor or self._cluster.actor_of_group(fault.group or "")
        held = [entry for entry in self._registry.entries if entry.target is not None and entry.target.actor == actor]
        if isinstance(fault, ContinueFault) and held:
            await self._end(held)
            return _described(held[-1].id, actor, held[-1].target)
        where = self._cluster.process_of(actor)
        self._check_that_it_can_be_ended(fault, actor)
        fault_id = self._registry.next_id()
        await self._end(held)
        log.info("fault %s: %s of %s, pid %d: %s", fault_id, fault.action, actor, where.pid, fault.to_json())
        injected = _described(fault_id, actor, where)
        self._history.injected(fault_id, fault, actor, **where._asdict())
        began_ms = self._history.now_ms()
        if actor in (by, _CONTROLLER) and not isinstance(fault, ContinueFault):
            if isinstance(fault, KillFault):  # no process is left to report it
                self._history.signalled(fault_id, fault, actor, began_ms, **where._asdict())
            return injected | {"left": {"fault": fault, "fault_id": fault_id, "actor": actor, "where": where}}
        holder = await self._cluster.run(where.node_id, processes.do, fault, where.pid)
        if isinstance(fault, HeldFault):
            await self.held(fault_id, fault, actor, where, holder)
        else:
            self._history.signalled(fault_id, fault, actor, began_ms, **where._asdict())
        return injected

    async def held(self, fault_id: str, fault: Fault, actor: str, where: Process, holder: int) -> None:
        """Register an actor fault that lasts."""
        self._history.signalled(fault_id, fault, actor, self._history.now_ms(), **where._asdict())
        target = Target(actor=actor, pid=where.pid, node_id=where.node_id, holder=holder)
        self._registry.add(fault_id, fault, target).hits = 1
        self._watch()

    def _check_that_it_can_be_ended(self, fault: ActorFault, actor: str) -> None:
        if not isinstance(fault, PauseFault) or fault.expires_ms is not None:
            return
        if actor == _CONTROLLER or self._cluster.gateways() == [actor]:
            raise UnknownTarget(f"a pause of {actor} needs expires_ms: nothing else could end it")

    async def faults(self) -> list[dict[str, Any]]:
        """Return the faults in force, with ``matched`` (requests in scope) and ``hits`` (requests affected)."""
        await self._cluster.gather(self._paused())
        await self._end(self._over())
        return [entry.to_json() for entry in self._registry.entries]

    async def happened(self, after: list[int] | None) -> dict[str, Any]:
        """Return how faults began and ended after that cursor: see :meth:`FaultHistory.happened`."""
        return self._history.happened(after)

    async def clear(self, fault_id: str | None) -> list[str]:
        """End the fault, or all faults. Returns their ids. Raises UnknownTarget if there is none with that id."""
        ended = self._registry.entries if fault_id is None else [self._known(fault_id)]
        await self._end(ended)
        return [entry.id for entry in ended]

    def _known(self, fault_id: str) -> Entry:
        entry = self._registry.get(fault_id)
        if entry is None:
            there = ", ".join(entry.id for entry in self._registry.entries) or "none"
            raise UnknownTarget(f"there is no fault {fault_id}; there are: {there}")
        return entry

    async def begin(self, fresh: bool) -> None:
        """Load the faults that a predecessor left, unless this is a new run of the cluster."""
        self._registry.forget() if fresh else self._registry.load()
        if self._registry.entries:
            self._watch()

    async def stop(self) -> None:
        """End actor faults: no actor stays paused, so all can be stopped. Request faults end with the gateways."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._end([entry for entry in self._registry.entries if entry.target is not None])
        for entry in self._registry.entries:
            self._history.ended(entry, expired=False)

    def _watch(self) -> None:
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    async def _sweep(self) -> None:
        """While there are faults, end those that expire and those whose process has ended."""
        while self._registry.entries:
            await asyncio.sleep(_SWEEP_S)
            try:
                await self._end(self._over())
            except Exception:
                log.exception("faults that are over could not be ended; it is tried again")

    def _over(self) -> list[Entry]:
        gone = [entry for entry in self._registry.entries if entry.target is not None and self._is_gone(entry.target)]
        return list({entry.id: entry for entry in (*self._registry.expired(), *gone)}.values())

    def _is_gone(self, target: Target) -> bool:
        """Whether the process has ended, known on this node only. A replaced process still exists, and is held."""
        return target.node_id == self._cluster.node_id and started_of(target.pid) is None

    async def _end(self, entries: list[Entry]) -> None:
        expired = {entry.id for entry in self._registry.expired()}
        gone = self._registry.remove(*(entry.id for entry in entries))
        for entry in gone:
            self._history.ended(entry, expired=entry.id in expired)
            log.info("fault %s is over, after %d of %d requests: %s", entry.id, entry.hits, entry.matched, entry.fault)
            if entry.target is not None:
                where = entry.target
                await self._cluster.run(where.node_id, processes.release, where.holder, where.pid)
        if any(isinstance(entry.fault, RequestFault) for entry in gone):
            await self._publish()

    def _paused(self) -> set[str]:
        return {entry.target.actor for entry in self._registry.entries if entry.target is not None}

    async def _publish(self) -> list[str]:
        async with self._publishing:
            started_s = time.monotonic()
            late = await self._cluster.publish(self._registry.book(), self._paused())
            if late:
                log.warning("%s did not take the faults within %.1f s", ", ".join(late), time.monotonic() - started_s)
            return late


def _described(fault_id: str, actor: str, where: Process | Target | None) -> dict[str, Any]:
    return {"id": fault_id, "actor": actor, "pid": where.pid if where else None, "late_gateways": []}


_METHODS: Mapping[str, Callable[..., Any]] = {
    method.__name__: method
    for method in (
        FaultControl.book,
        FaultControl.draw,
        FaultControl.report,
        FaultControl.inject,
        FaultControl.held,
        FaultControl.faults,
        FaultControl.happened,
        FaultControl.clear,
    )
}

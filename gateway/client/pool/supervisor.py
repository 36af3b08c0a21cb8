"""The actor that supervises a pool: how many workers there are, and what becomes of those that die.

Ray restarts it however it ends, unless :meth:`muster.pool.Pool.stop` has ended it. It stores nothing: what runs, Ray
knows; who is a member, and what is committed, Kafka.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping

import ray

from muster.gateway.client.errors import MusterError
from muster.gateway.client.kafka.brokers import Coordinator
from muster.gateway.client.kafka.groups import members_of
from muster.gateway.client.kafka.leaders import TopicPartition
from muster.gateway.client.pool.choosing import Restarts, free_slots, to_stop
from muster.gateway.client.pool.crew import Crew, Event, Member, Plan
from muster.gateway.client.pool.members import evict, orphans, slot_of
from muster.gateway.client.pool.names import client_prefix
from muster.gateway.client.pool.observing import Look, Observer
from muster.gateway.client.pool.status import PoolState, PoolStatus, WorkerState, WorkerStatus
from muster.gateway.client.pool.worker import End
from muster.gateway.client.scaling.sizing import Sizing

log = logging.getLogger(__name__)

MAX_CALLS = 32
"""Calls at the same time, most of them waits."""
_TURN_S = 1.0
_STATUS_S = 2.0
"""Time of a worker to say what it does."""


class Supervisor:
    """The actor. Its thread does the work, its methods only read."""

    def __init__(self, plan: Plan, sizing: Sizing, *handler: bytes) -> None:
        self._plan = plan
        self._supervision = _Supervision(plan, sizing, handler)
        threading.Thread(target=self._supervision.run, name="muster-pool-supervisor", daemon=True).start()

    def __repr__(self) -> str:
        return f"pool {self._plan.name}"

    def plan(self) -> Plan:
        """Return what the pool was started with."""
        return self._plan

    def failure(self, timeout_s: float) -> str:
        """Return why the pool has failed, as soon as it has; empty if it has not within that time."""
        self._supervision.failed.wait(timeout_s)
        return self._supervision.failure

    def status(self) -> PoolStatus:
        """Return what the pool does now. Workers have two seconds to respond."""
        seen = self._supervision
        workers = dict(seen.crew.workers) if seen.crew is not None else {}
        return PoolStatus(
            name=self._plan.name,
            group=self._plan.settings.group,
            state=PoolState.FAILED if seen.failure else PoolState.RUNNING,
            size=sum(each.counts for each in workers.values()),
            workers=tuple(_statuses(workers)),
            lag=seen.lag,
            rate=seen.sizing.rate,
            deaths=seen.deaths,
            evicted=seen.evicted,
            last_death=seen.last_death,
            error=seen.failure or seen.error,
        )


class _Supervision:
    """Sizes the pool, and cleans up after workers that died."""

    def __init__(self, plan: Plan, sizing: Sizing, handler: tuple[bytes, ...]) -> None:
        self._plan, self.sizing, self._handler = plan, sizing, handler
        self._group = plan.settings.group
        self._prefix = client_prefix(self._group, plan.token)
        self._restarts = Restarts()
        self._wanted: int | None = None
        self._look: Look | None = None
        self._unswept: set[int] | None = None
        """Slots whose last actor may have left a member in the group; None: any that has no actor."""
        self._observer: Observer | None = None
        self._coordinator: Coordinator | None = None
        self.crew: Crew | None = None
        self.failed = threading.Event()
        self.failure = ""
        """Why the pool has failed; empty if it has not."""
        self.deaths = 0
        self.evicted = 0
        self.last_death = ""
        self._problem = ""

    @property
    def lag(self) -> int | None:
        """Unread records; None if that is not known."""
        look = self._look
        known = look is not None and self._observer is not None and not self._observer.error
        return sum(look.lags.values()) if look is not None and known else None

    @property
    def error(self) -> str:
        """Obstacle that keeps the pool from its work now; empty if there is none."""
        return self._problem or (self._observer.error if self._observer is not None else "")

    def run(self) -> None:
        """Work until the actor ends, whatever happens."""
        while True:
            try:
                self._turn(*self._begun())
                self._problem = ""
            except (MusterError, OSError) as error:
                self._problem = str(error)
                log.warning("%s", error)
                time.sleep(_TURN_S)
            except Exception as error:
                self._problem = repr(error)
                log.exception("the pool is not supervised now")
                time.sleep(_TURN_S)

    def _begun(self) -> tuple[Crew, Observer, Coordinator]:
        """Return what needs Ray and Kafka; it is made here, since an actor whose __init__ fails is not restarted."""
        client_id = f"{self._prefix}supervisor"
        if self.crew is None:
            self.crew = Crew(self._plan, self._handler)
        if self._coordinator is None:
            self._coordinator = self._plan.settings.cluster.coordinator(self._group, client_id)
        if self._observer is None:
            self._observer = Observer(self._plan.settings, client_id)
        return self.crew, self._observer, self._coordinator

    def _turn(self, crew: Crew, observer: Observer, coordinator: Coordinator) -> None:
        for event in crew.watch(_TURN_S):
            self._note(event)
        look = observer.take()
        self._look = look or self._look
        if self.failure:
            crew.stop(crew.workers)
        self._sweep(crew, coordinator, look)
        if self.failure:
            return
        if look is not None:
            self._wanted = self.sizing.look(look.at_s, look.rows, crew.size)
        if self._wanted is not None:
            self._resize(crew, self._wanted)

    def _note(self, event: Event) -> None:
        if event.ending is None and self._unswept is not None:
            self._unswept.add(event.slot)
        if event.ending is not None and event.ending.end is End.FAILED:
            self.failure = self.failure or event.message
            self.failed.set()
            log.error("the pool stops: %s", event.message)
        elif event.is_sudden:
            self.deaths += event.ending is None
            self.last_death = f"worker {event.slot}: {event.message}"
            self._restarts.note_deaths(time.monotonic(), [event.lived_s])
            log.warning("worker %d has ended after %.0f s: %s", event.slot, event.lived_s, event.message)

    def _sweep(self, crew: Crew, coordinator: Coordinator, look: Look | None) -> None:
        """Remove members of actors that are dead: at once after a death, and else those that a look shows.

        A slot is used again only after that, so that a member with its ``client.id`` is the one of the living actor.
        """
        if self._unswept is None or self._unswept:
            members = members_of(coordinator, self._group)
        elif look is not None:
            members = look.members
        else:
            return
        found = orphans(members, self._prefix, crew.workers.keys())
        self.evicted += evict(coordinator, self._group, found)
        self._unswept = set()

    def _resize(self, crew: Crew, wanted: int) -> None:
        if wanted > crew.size and self._restarts.may_start(time.monotonic()):
            for slot in free_slots(wanted - crew.size, crew.workers.keys()):
                crew.start(slot)
        elif wanted < crew.size and self._look is not None:
            owned = self._owned(crew, self._look)
            lags = self._look.lags
            if any(owned.values()) or not any(lags.values()):  # else they are about to get partitions
                crew.stop(to_stop(crew.size - wanted, owned, lags))

    def _owned(self, crew: Crew, look: Look) -> dict[int, frozenset[TopicPartition]]:
        """Return the partitions of the workers that consume, or will."""
        owned: dict[int, frozenset[TopicPartition]] = {
            slot: frozenset() for slot, worker in crew.workers.items() if worker.counts
        }
        for member in look.members:
            slot = slot_of(member, self._prefix)
            if slot in owned:
                owned[slot] = member.partitions
        return owned


def _statuses(workers: Mapping[int, Member]) -> Iterator[WorkerStatus]:
    """Yield what each worker says; what is known without it, if it does not respond in time."""
    calls = {slot: worker.actor.status.remote() for slot, worker in workers.items() if worker.ready is None}
    if calls:
        ray.wait(list(calls.values()), num_returns=len(calls), timeout=_STATUS_S)
    for slot, worker in sorted(workers.items()):
        try:
            yield ray.get(calls[slot], timeout=0)
        except (KeyError, ray.exceptions.RayError):
            yield WorkerStatus(slot, _state(worker))


def _state(worker: Member) -> WorkerState:
    if worker.ending is not None and worker.ending.end is End.FAILED:
        return WorkerState.FAILED
    if not worker.counts:
        return WorkerState.STOPPING
    return WorkerState.STARTING if worker.ready is not None else WorkerState.RUNNING

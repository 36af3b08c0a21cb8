"""The workers of a pool, as Ray knows them. One thread uses it; others may read ``workers``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError

from muster.gateway.client.consuming.handling import text_of
from muster.gateway.client.consuming.settings import Consumption
from muster.gateway.client.pool.names import NAMESPACE, client_id, supervisor_name, worker_name, worker_slots
from muster.gateway.client.pool.worker import End, Ending, Worker, is_registered

CHUNK_BYTES = 64 * 1024
"""Ray copies arguments up to about this size to where it keeps the actor, and so has them when it restarts it.

Larger ones are objects of the driver, and go with it.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings of a pool. It pickles."""

    name: str
    token: str
    """Name of this start of the pool."""
    settings: Consumption
    worker_options: Mapping[str, Any]
    """Options of Ray for the actors of workers."""


@dataclass(slots=True)
class Member:
    """One worker."""

    actor: Any
    ready: Any
    """Reference; None once the actor has run."""
    ended: Any
    """Reference to the end of its loop, which fails if the actor dies; None if the loop has failed."""
    started_s: float = field(default_factory=time.monotonic)
    ending: Ending | None = None
    """Set once the loop has ended."""
    is_stopping: bool = False
    is_killed: bool = False

    @property
    def counts(self) -> bool:
        """Whether it consumes, or will."""
        return not self.is_stopping and self.ending is None


@dataclass(frozen=True, slots=True)
class Event:
    """The end of a worker's loop, or the death of its actor."""

    slot: int
    ending: Ending | None
    """None: the actor died while its loop ran, so that its member is left in the group."""
    is_sudden: bool
    """Whether nobody stopped the worker."""
    lived_s: float
    message: str


class Crew:
    """Workers by slot. A slot is free again when Ray says that its actor is dead."""

    def __init__(self, plan: Plan, handler: tuple[bytes, ...]) -> None:
        """Find the workers that run already: those that an earlier process of the supervisor has started."""
        self._plan, self._handler = plan, handler
        self._supervisor = supervisor_name(plan.name)
        self.workers: dict[int, Member] = {}
        for slot in worker_slots(plan.token, ray.util.list_named_actors(all_namespaces=True)):
            self._adopt(slot)

    @property
    def size(self) -> int:
        """Number of workers that run or are being started."""
        return sum(each.counts for each in self.workers.values())

    def start(self, slot: int) -> None:
        """Start a worker in a free slot."""
        plan = self._plan
        options = {
            **plan.worker_options,
            "name": self._name(slot),
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "max_restarts": 0,
        }
        name = client_id(plan.settings.group, plan.token, slot)
        worker: Any = ray.remote(Worker).options(**options)
        try:
            actor = worker.remote(self._supervisor, slot, plan.settings, name, *self._handler)
        except ValueError:  # of that name there is one
            self._adopt(slot)
            return
        self._add(slot, actor)

    def _adopt(self, slot: int) -> None:
        try:
            actor = ray.get_actor(self._name(slot), NAMESPACE)
        except ValueError:  # it is dead meanwhile
            return
        self._add(slot, actor)

    def _add(self, slot: int, actor: Any) -> None:
        self.workers[slot] = Member(actor, actor.ready.remote(), actor.ended.remote())

    def stop(self, slots: Iterable[int]) -> None:
        """Stop these workers in order; those whose actor does not run yet, at once."""
        for slot in slots:
            worker = self.workers[slot]
            if worker.counts:
                worker.is_stopping = True
                if worker.ready is None:
                    worker.actor.stop.remote()
                else:
                    worker.is_killed = True
                    ray.kill(worker.actor)

    def watch(self, timeout_s: float) -> list[Event]:
        """Wait until something happens to a worker. Return the ends of loops, and the deaths of actors before that."""
        by_reference = {
            reference: (slot, worker)
            for slot, worker in self.workers.items()
            for reference in (worker.ready, worker.ended)
            if reference is not None
        }
        if not by_reference:
            time.sleep(timeout_s)
            return []
        done, _ = ray.wait(list(by_reference), num_returns=1, timeout=timeout_s)
        if done:
            done, _ = ray.wait(list(by_reference), num_returns=len(by_reference), timeout=0)
        events: list[Event] = []
        for reference in done:
            slot, worker = by_reference[reference]
            if reference is worker.ready:
                worker.ready = None
            else:
                events += self._note_end(slot, worker)
        return events

    def _note_end(self, slot: int, worker: Member) -> list[Event]:
        """Take what the reference to the worker's end holds. Return the event, if there is one."""
        had_ended, is_sudden = worker.ending is not None, not worker.is_stopping
        lived_s = time.monotonic() - worker.started_s
        death = self._take_end(slot, worker)
        if death is not None:
            del self.workers[slot]
            return [] if had_ended else [Event(slot, None, is_sudden, lived_s, death)]
        if worker.ending is None or had_ended:
            return []
        return [Event(slot, worker.ending, is_sudden, lived_s, worker.ending.message)]

    def _take_end(self, slot: int, worker: Member) -> str | None:
        """Return how the actor died; None if it lives. Once its loop has ended, end the actor.

        If the loop has failed, the actor stays: it is the record of the failure, should the supervisor be restarted.
        """
        try:
            worker.ending = ray.get(worker.ended)
        except ActorDiedError as error:
            return text_of(error)
        except RayError as error:  # ActorUnavailableError: a connection was lost, and Ray connects again
            if not isinstance(error, ActorUnavailableError) and not is_registered(self._name(slot)):
                return text_of(error)
        if worker.ending is not None and worker.ending.end is End.FAILED:
            worker.ended = None
            return None
        if worker.ending is not None:
            ray.kill(worker.actor)
        worker.ended = worker.actor.ended.remote()
        return None

    def _name(self, slot: int) -> str:
        return worker_name(self._plan.token, slot)

"""The actor of one worker: a member of the group, and the handler."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import ray

from muster.gateway.client.consuming.handling import Handler, text_of
from muster.gateway.client.consuming.loop import Loop
from muster.gateway.client.consuming.settings import Consumption
from muster.gateway.client.errors import HandlerFailed
from muster.gateway.client.pool.names import NAMESPACE
from muster.gateway.client.pool.status import WorkerState, WorkerStatus

log = logging.getLogger(__name__)

_LOOK_S = 2.0
"""How often a worker looks whether its pool still has a supervisor."""
_MISSING = 2
"""So many looks in a row without a supervisor end the worker."""


class End(StrEnum):
    """How the loop of a worker ended; a worker may also die."""

    STOPPED = "stopped"
    FAILED = "failed"
    """A record could not be handled."""
    CRASHED = "crashed"
    """Any other error; another worker may have more luck."""


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a worker's loop. Its member has left the group."""

    end: End
    message: str = ""


class Worker:
    """A member of the group, as an actor that is never restarted. It outlives a restart of its supervisor.

    If the pool has no supervisor any more, it stops in order and ends its actor.
    """

    def __init__(self, supervisor: str, slot: int, settings: Consumption, client_id: str, *handler: bytes) -> None:
        """``supervisor``: its name. ``handler``: the parts of the handler as cloudpickle has pickled it."""
        self._supervisor, self._slot = supervisor, slot
        self._loop = Loop(settings, client_id, lambda: _made(b"".join(handler)))
        self._ended: Future[Ending] = Future()
        for target in (self._run, self._watch):
            threading.Thread(target=target, name=f"muster-pool{target.__name__}", daemon=True).start()

    def __repr__(self) -> str:
        return f"pool {self._supervisor.partition(':')[2]}, worker {self._slot}"

    def _run(self) -> None:
        try:
            self._loop.run()
            ending = Ending(End.STOPPED)
        except HandlerFailed as error:
            ending = Ending(End.FAILED, error.message)
        except BaseException as error:
            log.exception("the worker has ended")
            ending = Ending(End.CRASHED, text_of(error))
        self._ended.set_result(ending)

    def _watch(self) -> None:
        missing = 0
        while missing < _MISSING:
            time.sleep(_LOOK_S)
            missing = 0 if is_registered(self._supervisor) else missing + 1
        log.warning("the pool has no supervisor any more")
        self._loop.stop()
        self._ended.result()
        ray.kill(ray.get_runtime_context().current_actor)

    async def ready(self) -> None:
        """Return once the actor runs."""

    async def ended(self) -> Ending:
        """Return when the loop has ended."""
        return await asyncio.shield(asyncio.wrap_future(self._ended))

    async def stop(self) -> Ending:
        """Finish the batch that is handled, commit it and leave the group; return then."""
        self._loop.stop()
        return await self.ended()

    async def status(self) -> WorkerStatus:
        """Return what it does now."""
        loop, counts, from_s = self._loop, self._loop.counts, self._loop.handles_from_s
        return WorkerStatus(
            slot=self._slot,
            state=self._state(),
            pid=os.getpid(),
            node_id=ray.get_runtime_context().get_node_id(),
            partitions=loop.partitions,
            records=counts.records,
            batches=counts.batches,
            failed_attempts=counts.failed_attempts,
            dead_letters=counts.dead_letters,
            refused_commits=counts.refused_commits,
            handles_for_s=None if from_s is None else time.monotonic() - from_s,
            last_error=counts.last_error,
        )

    def _state(self) -> WorkerState:
        if self._ended.done() and self._ended.result().end is End.FAILED:
            return WorkerState.FAILED
        if self._loop.is_stopping:
            return WorkerState.STOPPING
        return WorkerState.STARTING if self._loop.polled_s is None else WorkerState.RUNNING


def _made(pickled: bytes) -> Handler:
    """Return the handler; of a class, its one instance here."""
    made: Any = ray.cloudpickle.loads(pickled)
    handler: Callable[..., Any] = made() if isinstance(made, type) else made
    return handler


def is_registered(name: str) -> bool:
    """Return whether Ray has an actor of that name: it runs, starts or is restarted. True if Ray does not respond."""
    try:
        ray.get_actor(name, NAMESPACE)
    except ValueError:
        return False
    except Exception:
        log.warning("Ray does not say whether %s is alive", name, exc_info=True)
    return True

"""How a pool is started, found and stopped."""

from __future__ import annotations

import contextlib
import inspect
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from muster.gateway.client.consuming.settings import Value, check_topics, consumption
from muster.gateway.client.errors import InvalidConsumer, MusterError, PoolExists, PoolFailed, PoolNotFound
from muster.gateway.client.kafka.groups import members_of
from muster.gateway.client.pool.members import evict, orphans
from muster.gateway.client.pool.names import NAMESPACE, client_prefix, supervisor_name, worker_name, worker_slots
from muster.gateway.client.pool.status import PoolState, PoolStatus
from muster.gateway.client.scaling.sizing import Sizing

if TYPE_CHECKING:
    import pyarrow as pa

    from muster.gateway.client.cluster import Cluster
    from muster.gateway.client.pool.crew import Plan

log = logging.getLogger(__name__)

T = TypeVar("T")
_START_S = 10.0
"""From the decision to add a worker until it reads, about."""
_PAUSE_S = 0.2
_LOST_S = 120.0
"""So long a supervisor may be restarted."""
_WAIT_S = 5.0
_READY_S = 5.0
_MAX_HANDLER_BYTES = 8 << 20
"""Ray keeps up to 10 MB of arguments with an actor."""
_OURS = {
    "name",
    "namespace",
    "lifetime",
    "max_restarts",
    "max_task_retries",
    "max_concurrency",
    "concurrency_groups",
    "get_if_exists",
}


def start(
    handle: Callable[[pa.Table], None] | type,
    topics: str | Sequence[str],
    *,
    group: str,
    low: int = 0,
    high: int = 8,
    target_s: float = 10,
    max_records: int = 500,
    dead_letters: str | None = None,
    attempts: int = 5,
    ray_actor_options: Mapping[str, Any] = MappingProxyType({}),
    name: str | None = None,
    cluster: Cluster | None = None,
    consumer_config: Mapping[str, Value] = MappingProxyType({}),
    sizing: Sizing | None = None,
) -> Pool:
    """Start Ray actors that consume as members of ``group``, as many as its lag needs.

    ``handle`` gets up to ``max_records`` records as a table with the columns of ``ray.data.read_kafka``: topic,
    partition, offset, timestamp, timestamp_type, key, value, headers. Offsets are committed after it returns: at least
    once. Of a class, each worker makes one instance, which is called; if that cannot be made, the pool fails. It runs
    in a thread of its own, always the same; the member stays in the group however long it takes.

    A batch that fails ``attempts`` times goes record by record, once each, and what still fails to the topic
    ``dead_letters``, with headers ``dead_letter.error``, ``.topic``, ``.partition``, ``.offset``, ``.timestamp``,
    ``.group`` and ``.attempts``. Without that topic the pool stops: PoolFailed.

    There are ``low`` to ``high`` workers, so that the oldest unread record stays younger than ``target_s``; or as many
    as ``sizing`` says. Idle ones are stopped first. When Ray reports that a worker is dead, its member is removed from
    the group at once, and another worker is started.

    ``ray_actor_options``: of each worker, as for a deployment of Serve, with one CPU by default.
    ``consumer_config``: properties of librdkafka in addition, such as ``isolation.level``.

    The pool outlives this driver, until ``Pool.stop``; :func:`find` finds it by its ``name``, by default the group's.
    Raises PoolExists, unless the pool of that name has failed; InvalidConsumer, InvalidScaling, UnknownTopic, Refused
    or NoResponse.
    """
    import ray

    _check_connected()
    if cluster is None:
        from muster.gateway.client.finding import connect

        cluster = connect()
    name = name or group
    token = secrets.token_hex(3)
    settings = consumption(
        cluster,
        topics,
        group,
        max_records=max_records,
        attempts=attempts,
        dead_letters=dead_letters,
        consumer_config=consumer_config,
    )
    sizing = sizing or Sizing(low, high, target_s, _START_S)
    handler = _pickled(handle)
    worker_options = _worker_options(ray_actor_options)
    check_topics(settings, f"{client_prefix(group, token)}driver")
    _make_room(name)

    from muster.gateway.client.pool.crew import Plan
    from muster.gateway.client.pool.supervisor import MAX_CALLS, Supervisor

    plan = Plan(name, token, settings, worker_options)
    options = {
        "name": supervisor_name(name),
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "max_restarts": -1,
        "num_cpus": 0,
        "max_concurrency": MAX_CALLS,
    }
    try:
        actor: Any = ray.remote(Supervisor).options(**options).remote(plan, sizing, *handler)
    except ValueError as error:
        raise PoolExists(_EXISTS.format(name)) from error
    ray.get(actor.plan.remote())
    return Pool(plan, actor)


_EXISTS = "pool {0!r} is running: muster.pool.find({0!r}) returns it, and its stop() ends it"


def find(name: str) -> Pool:
    """Return the pool of that name on the Ray that this process is connected to. Raises PoolNotFound."""
    import ray

    _check_connected()
    with contextlib.suppress(ValueError):
        supervisor = ray.get_actor(supervisor_name(name), NAMESPACE)
        plan: Plan | None = _result(name, supervisor, lambda actor: ray.get(actor.plan.remote()))
        if plan is not None:
            return Pool(plan, supervisor)
    raise PoolNotFound(f"there is no pool {name!r} on this Ray: muster.pool.start starts one")


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool on Ray. It pickles, and every driver of the same Ray may use it. A ``with`` block stops it at its end.

    It is this pool until its end, whatever is started under its name later.
    """

    plan: Plan
    """Its settings; internal."""
    supervisor: Any = field(repr=False)
    """Its actor; internal."""

    @property
    def name(self) -> str:
        """The name by which :func:`find` finds it."""
        return self.plan.name

    @property
    def size(self) -> int:
        """Number of workers that run or are being started."""
        return self.status().size

    def status(self) -> PoolStatus:
        """Return what the pool does now; after its end, that it is stopped."""
        import ray

        found: PoolStatus | None = self._from_supervisor(lambda actor: ray.get(actor.status.remote()))
        return found or PoolStatus(self.name, self.plan.settings.group, PoolState.STOPPED)

    def wait(self) -> None:
        """Return when the pool was stopped, by whomever. Raises PoolFailed if a record could not be handled."""
        import ray

        while True:
            failure: str | None = self._from_supervisor(lambda actor: ray.get(actor.failure.remote(_WAIT_S)))
            if failure is None:
                return
            if failure:
                raise PoolFailed(f"pool {self.name!r} has stopped: {failure}; {_REMEDY}")

    def stop(self, timeout_s: float = 60) -> None:
        """End the pool. Workers finish and commit the batch that they handle; after ``timeout_s`` they are killed.

        From the first moment on no worker is started. If this driver dies meanwhile, they stop by themselves. Returns
        when nothing of the pool is left; also if it was stopped before.
        """
        import ray

        deadline = time.monotonic() + timeout_s
        ray.kill(self.supervisor, no_restart=True)
        stops: dict[int, _Stop] = {}
        while slots := worker_slots(self.plan.token, ray.util.list_named_actors(all_namespaces=True)):
            for slot in slots:
                if slot not in stops:
                    with contextlib.suppress(ValueError):
                        stops[slot] = _Stop(ray.get_actor(worker_name(self.plan.token, slot), NAMESPACE))
            for stop in stops.values():
                stop.look(is_late=time.monotonic() > deadline)
            time.sleep(_PAUSE_S)
        try:
            self._evict()
        except (MusterError, OSError) as error:
            log.warning("members of killed workers stay until their sessions end: %s", error)

    def _from_supervisor(self, call: Callable[[Any], T]) -> T | None:
        return _result(self.name, self.supervisor, call)

    def _evict(self) -> None:
        """Remove members of workers that did not leave: none of their actors is alive."""
        settings = self.plan.settings
        prefix = client_prefix(settings.group, self.plan.token)
        with settings.cluster.coordinator(settings.group, f"{prefix}driver") as coordinator:
            evict(coordinator, settings.group, orphans(members_of(coordinator, settings.group), prefix, ()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


_REMEDY = "correct the handler or choose a topic for dead_letters, then start it again"


class _Stop:
    """The stop of one worker."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._ready, self._stopped = actor.ready.remote(), actor.stop.remote()
        self._until_s = time.monotonic() + _READY_S
        """A worker that does not respond by then is still being started, or never will."""

    def look(self, *, is_late: bool) -> None:
        """End the actor once its loop has ended, or if that is not to be waited for."""
        import ray

        done, _ = ray.wait([self._stopped], timeout=0)
        starts = time.monotonic() > self._until_s and not ray.wait([self._ready], timeout=0)[0]
        if done or starts or is_late:
            ray.kill(self._actor)


def _result(name: str, supervisor: Any, call: Callable[[Any], T]) -> T | None:
    """Return what the call of the supervisor returns; None if it has ended for good. It waits while it is restarted."""
    import ray
    from ray.exceptions import RayActorError

    until_s = time.monotonic() + _LOST_S
    while True:
        try:
            return call(supervisor)
        except RayActorError:
            try:
                current = ray.get_actor(supervisor_name(name), NAMESPACE)
            except ValueError:
                return None
            if current != supervisor:  # another pool has the name now
                return None
            if time.monotonic() > until_s:
                raise
            time.sleep(_PAUSE_S)


def _make_room(name: str) -> None:
    """Remove what is left of a pool of that name that has failed. Raises PoolExists for one that runs."""
    try:
        pool = find(name)
    except PoolNotFound:
        return
    if pool.status().state is PoolState.RUNNING:
        raise PoolExists(_EXISTS.format(name))
    log.info("pool %s has failed before: %s", name, pool.status().error)
    pool.stop()


def _pickled(handle: Callable[[pa.Table], None] | type) -> list[bytes]:
    """Return the handler in parts, which Ray keeps with an actor. Raises InvalidConsumer."""
    from ray import cloudpickle

    from muster.gateway.client.pool.crew import CHUNK_BYTES

    called: Any = handle
    if isinstance(handle, type):
        called = next((vars(each)["__call__"] for each in handle.__mro__ if "__call__" in vars(each)), None)
    if not callable(called) or inspect.iscoroutinefunction(called):
        raise InvalidConsumer("the handler must be a function, or a class whose instances can be called; not async")
    try:
        pickled: bytes = cloudpickle.dumps(handle)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise InvalidConsumer(f"the handler cannot be pickled, by which workers get it: {error}") from error
    if len(pickled) > _MAX_HANDLER_BYTES:
        raise InvalidConsumer(
            f"the handler has {len(pickled) >> 20} MiB: make it a class that loads what is large in its __init__"
        )
    return [pickled[begin : begin + CHUNK_BYTES] for begin in range(0, len(pickled), CHUNK_BYTES)]


def _worker_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return Ray's options for workers, as Serve has them: with one CPU by default. Raises InvalidConsumer."""
    import ray

    from muster.gateway.client.pool.worker import Worker

    for option in sorted(given.keys() & _OURS):
        raise InvalidConsumer(f"ray_actor_options cannot have {option}: the pool has its own")
    options = {"num_cpus": 1, **given}
    try:
        ray.remote(Worker).options(**options)
    except (TypeError, ValueError) as error:
        raise InvalidConsumer(f"ray_actor_options cannot be used: {error}") from error
    return options


def _check_connected() -> None:
    import ray

    if not ray.is_initialized():
        raise InvalidConsumer("this process is not connected to a Ray: call ray.init first")

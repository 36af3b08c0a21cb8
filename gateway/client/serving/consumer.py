"""Base class of deployments of Ray Serve whose replicas are members of a group.

Replicas are dynamic members: a static one sends no LeaveGroup when it is closed (KIP-345), so a replica that is removed
would block its partitions until its session ends. And Serve gives replicas no stable names.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from muster.gateway.client.consuming.handling import text_of
from muster.gateway.client.consuming.settings import Consumption, Value, check_topics, consumption
from muster.gateway.client.errors import ConsumerEnded, InvalidConsumer

if TYPE_CHECKING:
    import pyarrow as pa

    from muster.gateway.client.cluster import Cluster
    from muster.gateway.client.consuming.loop import Loop

log = logging.getLogger(__name__)

_MEMBER = "_muster_member"
_starting = threading.Lock()


class Consumer:
    """Base class of a deployment that consumes: each replica is a member of ``group`` and handles batches.

    A subclass has ``handle``; and what it reads as class attributes, as attributes that its ``__init__`` sets, or as
    arguments of this class's. It may have methods for requests. The replica joins the group once ``__init__`` has
    returned. ``handle`` runs in a thread of its own, beside the replica's event loop, and must be no coroutine.

    A batch is committed after ``handle`` returns: at least once. If it fails ``attempts`` times, its records are
    handled one by one, and those that still fail go to the topic ``dead_letters``; without one, the replica leaves the
    group, and Serve replaces it.

    Serve must wait until a batch is handled before it kills a replica: give the deployment a
    ``graceful_shutdown_timeout_s`` of a batch and 10 s. A subclass with ``check_health`` or ``__del__`` of its own
    calls those of this class in them.
    """

    topics: str | Sequence[str] = ()
    group: str = ""
    max_records: int = 500
    """In a batch."""
    attempts: int = 5
    """To handle a batch."""
    dead_letters: str | None = None
    """Topic of records that cannot be handled."""
    cluster: Cluster | None = None
    """None: the one that ``muster.connect()`` finds."""
    consumer_config: Mapping[str, Value] = MappingProxyType({})
    """Properties of librdkafka in addition."""

    def __init__(
        self,
        topics: str | Sequence[str] | None = None,
        group: str | None = None,
        *,
        max_records: int | None = None,
        attempts: int | None = None,
        dead_letters: str | None = None,
        cluster: Cluster | None = None,
        consumer_config: Mapping[str, Value] | None = None,
    ) -> None:
        """Set attributes of this replica; those that are None are the class's."""
        given = {
            "topics": topics,
            "group": group,
            "max_records": max_records,
            "attempts": attempts,
            "dead_letters": dead_letters,
            "cluster": cluster,
            "consumer_config": consumer_config,
        }
        for name, value in given.items():
            if value is not None:
                setattr(self, name, value)

    def handle(self, batch: pa.Table) -> None:
        """Handle records, whose columns are those of ``ray.data.read_kafka``. Any error is a failed attempt."""
        raise NotImplementedError(f"{type(self).__name__} has no handle(self, batch)")

    def check_health(self) -> None:
        """Raise ConsumerEnded if the replica no longer consumes. The first call, of Serve after __init__, begins it.

        So it is if the loop has ended, or has not polled for ``max.poll.interval.ms``.
        """
        with _starting:
            member: _Member | None = self.__dict__.get(_MEMBER)
            if member is None:
                self.__dict__[_MEMBER] = _Member(self)
                return
        member.check()

    def __del__(self) -> None:
        """Finish the batch that is handled, commit it and leave the group. Serve calls it when a replica ends."""
        member: _Member | None = self.__dict__.get(_MEMBER)
        if member is not None:
            member.stop()


class _Member:
    """The loop of a replica, in its thread."""

    def __init__(self, consumer: Consumer) -> None:
        """Begin. Raises InvalidConsumer."""
        self._settings = _settings_of(consumer)
        self._client_id = f"muster-serve-{self._settings.group}"
        self._error = ""
        self._started_s = time.monotonic()
        self._stopping = threading.Event()
        self._loop: Loop | None = None
        self._thread = threading.Thread(
            target=self._run, args=(consumer.handle,), name="muster-serve-consumer", daemon=True
        )
        self._thread.start()

    def _run(self, handle: Any) -> None:
        try:
            check_topics(self._settings, self._client_id)
            from muster.gateway.client.consuming.loop import Loop

            self._loop = Loop(self._settings, self._client_id, lambda: handle)
            if not self._stopping.is_set():
                self._loop.run()
        except BaseException as error:
            self._error = text_of(error)
            log.exception("the replica no longer consumes")

    def check(self) -> None:
        """Raise ConsumerEnded if nothing is consumed any more."""
        if self._stopping.is_set():
            return
        if not self._thread.is_alive():
            raise ConsumerEnded(f"the replica no longer consumes: {self._error or 'its loop has ended'}")
        polled_s = self._loop.polled_s if self._loop is not None else None
        silent_s = time.monotonic() - (polled_s or self._started_s)
        if silent_s > self._settings.max_poll_interval_s:
            raise ConsumerEnded(f"the replica has not polled for {silent_s:.0f} s (max.poll.interval.ms)")

    def stop(self) -> None:
        """Return when the loop has ended; Serve does not wait longer than ``graceful_shutdown_timeout_s``."""
        self._stopping.set()
        if self._loop is not None:
            self._loop.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _settings_of(consumer: Consumer) -> Consumption:
    if inspect.iscoroutinefunction(consumer.handle):
        raise InvalidConsumer(f"{type(consumer).__name__}.handle must not be async: it runs in a thread of its own")
    cluster = consumer.cluster
    if cluster is None:
        from muster.gateway.client.finding import connect

        cluster = connect()
    return consumption(
        cluster,
        consumer.topics,
        consumer.group,
        max_records=consumer.max_records,
        attempts=consumer.attempts,
        dead_letters=consumer.dead_letters,
        consumer_config=consumer.consumer_config,
    )

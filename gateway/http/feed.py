"""Events of the cluster as they happen, collected by one gateway for all who listen to it, while somebody does.

Rebalances come from the coordinators' journals, read once a second; faults from the controller, as often; and actors
from the views that the gateway follows, and from its connections to them. Where a journal is read is a cursor,
``(leader epoch, count)``.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from muster.actors.faults.errors import FaultError
from muster.actors.runtime.process import wall_ms
from muster.actors.wire.internal.channel import ChannelLost
from muster.gateway.faults.injection import GatewayFaults
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway
from muster.placement.view import OFFSETS, ClusterView

log = logging.getLogger(__name__)

_PERIOD_S = 1.0
_QUERY_S = 10.0
"""A coordinator that is silent for so long is queried anew. The others do not wait for it."""
_VIEW_S = 60.0
_PAGE_BYTES = 512 << 10
"""Entries of a coordinator that are read at once."""
_MAX_ID_CHARS = 4096
_SLACK_MS = 10_000
"""How long before its position a coordinator may have had its first entries, without being named there."""


class Kind(StrEnum):
    REBALANCE = "rebalance"
    FAULT = "fault"
    ACTOR = "actor"
    LOST = "lost"


class Cursor(NamedTuple):
    """A place in the journal of one coordinator."""

    epoch: int
    ended: int
    """Count of the entries before it."""


_START = Cursor(0, 0)
"""Place before the first entry of any coordinator."""


@dataclass(slots=True)
class Position:
    """How far the journals of all coordinators are read, by offsets partition."""

    cursors: dict[int, Cursor]
    at_ms: int
    """Coordinators that are not named had no entry long before this time; ms since the Unix epoch."""

    def id(self, first: int | None = None) -> str:
        """Return it as the id of an event, that of the partition ``first``; empty if it is too long to be one.

        ``PARTITION.EPOCH.COUNT,...@MS``; the event's own coordinator comes first.
        """
        order = sorted(self.cursors, key=lambda partition: (partition != first, partition))
        places = ",".join(f"{partition}.{'.'.join(map(str, self.cursors[partition]))}" for partition in order)
        text = f"{places}@{self.at_ms}"
        return text if len(text) <= _MAX_ID_CHARS else ""

    @classmethod
    def of(cls, text: str) -> Position:
        """Return the position of an id. Raises ValueError if it is none."""
        if len(text) > _MAX_ID_CHARS or not text.isascii():
            raise ValueError("it is no id of an event")
        places, _, at_ms = text.partition("@")
        cursors = {}
        for place in filter(None, places.split(",")):
            partition, epoch, count = map(_natural, place.split("."))
            cursors[partition] = Cursor(epoch, count)
        return cls(cursors, _natural(at_ms))


def _natural(text: str) -> int:
    if not text.isdigit() or len(text) > 18:
        raise ValueError("it is no number")
    return int(text)


@dataclass(frozen=True, slots=True)
class Event:
    kind: Kind
    values: Mapping[str, Any]
    """Not to be changed: all listeners have the same."""
    id: str = ""
    """Position with which a client that has the event resumes; empty if it is no place in a journal."""
    partition: int | None = None
    """Offsets partition that it is about."""
    text: str = field(init=False)
    """The values as JSON."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", json.dumps(self.values, allow_nan=False))


Put = Callable[[Event], None]


class EventFeed:
    """Events of now for those that have joined; all methods are for the gateway's event loop."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._puts: set[Put] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._cursors: dict[int, Cursor] = {}
        self._since_ms = 0
        self._has_position = asyncio.Event()
        self._knows_faults = False
        self._actors: dict[str, _Actor] = {}

    def join(self, put: Put) -> None:
        """Call ``put`` with each event from now on."""
        self._puts.add(put)
        if not self._tasks:
            self._since_ms = wall_ms()
            self._actors = self._actors_now()
            work = (
                self._read_journals(),
                self._follow_views(),
                self._follow_connections(),
                self._follow_faults(),
            )
            self._tasks = [_started(each) for each in work]

    def leave(self, put: Put) -> None:
        """Call it no more. Without a listener, nothing is queried."""
        self._puts.discard(put)
        if self._puts:
            return
        for task in (*self._tasks, *self._readers.values()):
            task.cancel()
        self._tasks, self._readers, self._cursors, self._actors = [], {}, {}, {}
        self._has_position, self._knows_faults = asyncio.Event(), False

    @property
    def is_complete(self) -> bool:
        """Whether all that happens from now on is put, as far as those that know of it have responded once."""
        return self._has_position.is_set() and self._knows_faults

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queried."""
        return not self._tasks

    @property
    def position(self) -> Position:
        """All that was put so far is before it."""
        return Position(dict(self._cursors), wall_ms())

    async def has_position(self, timeout_s: float) -> None:
        """Wait until the coordinators have said where their journals are; after the timeout, some have not."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._has_position.wait()
        except TimeoutError:
            log.debug("not all coordinators respond")

    async def between(self, last: Position, end: Position) -> AsyncGenerator[Event, None]:
        """Yield the rebalances that ended after the position ``last``, up to ``end``, as far as they are in memory.

        Where entries are missing, an event says so: those of a coordinator that is no more, or does not respond.
        """
        reached = Position(dict(last.cursors), last.at_ms)
        for partition in sorted({*last.cursors, *end.cursors}):
            if partition in end.cursors:
                async for event in self._between(partition, reached, end.cursors[partition]):
                    yield event
                reached.cursors[partition] = end.cursors[partition]
            else:
                yield _lost(partition, None)

    async def _between(self, partition: int, reached: Position, end: Cursor) -> AsyncGenerator[Event, None]:
        after = reached.cursors.get(partition)
        since_ms = 0 if after is not None else reached.at_ms - _SLACK_MS
        after = after or _START
        while after != end:
            found = await self._journal(partition, after, since_ms)
            if found is None:
                yield _lost(partition, None)
                return
            if found.lost is None or (found.lost and after != _START):
                yield _lost(partition, found.lost)
            for cursor, entry in found.entries:
                if cursor.epoch != end.epoch or cursor.ended > end.ended:
                    return
                reached.cursors[partition] = cursor
                yield _rebalance(partition, entry, reached)
            after = found.after
            if after.epoch != end.epoch or after.ended >= end.ended:
                return

    async def _read_journals(self) -> None:
        is_first = True
        while True:
            for partition in self._gateway.view.owners(OFFSETS):
                reader = self._readers.get(partition)
                if reader is None or reader.done():
                    self._readers[partition] = _started(self._read(partition))
            if is_first:
                is_first = False
                self._tasks.append(_started(self._know_position([*self._readers.values()])))
            await asyncio.sleep(_PERIOD_S)

    async def _know_position(self, readers: list[asyncio.Task[None]]) -> None:
        if readers:
            await asyncio.wait(readers)
        self._has_position.set()

    async def _read(self, partition: int) -> None:
        """Put what has ended since the last time."""
        more = True
        while more:
            after = self._cursors.get(partition, _START)
            found = await self._journal(partition, after, self._since_ms)
            if found is None:
                return
            if found.lost is None or (found.lost and after != _START):
                self._put(_lost(partition, found.lost))
            for cursor, entry in found.entries:
                self._cursors[partition] = cursor
                self._put(_rebalance(partition, entry, self.position))
            self._cursors[partition] = found.after
            more = found.more

    async def _journal(self, partition: int, after: Cursor, since_ms: int) -> _Part | None:
        """Return what the coordinator's journal has after the cursor; None if it is down or does not respond."""
        channel = self._gateway.forwarder.channel((OFFSETS, partition))
        if channel is None:
            return None
        query = {"ask": "journal", "after": [*after], "since_ms": since_ms, "max_bytes": _PAGE_BYTES}
        try:
            async with asyncio.timeout(_QUERY_S):
                response = await channel.query(query)
        except (ChannelLost, TimeoutError) as error:
            log.debug("the journal of offsets-%d cannot be read: %s", partition, error)
            return None
        return None if "error" in response else _Part.of(response)

    async def _follow_views(self) -> None:
        while True:
            order = self._gateway.view.order
            await self._gateway.until_view(lambda newer, order=order: newer.order > order, _VIEW_S)
            self._compare_actors()

    async def _follow_connections(self) -> None:
        """Put the loss of an actor at once: its successor is in a view only when it serves."""
        while True:
            await self._gateway.forwarder.until(lambda: self._actors_now() != self._actors, _VIEW_S)
            self._compare_actors()

    def _compare_actors(self) -> None:
        known, self._actors = self._actors, self._actors_now()
        for name in sorted({*known, *self._actors}):
            before, now = known.get(name), self._actors.get(name)
            if now is None or before is None or now[:-1] != before[:-1]:
                state = _DOWN if now is None else now.state
                node_id = now.node_id if now else before.node_id if before else None
                self._put(Event(Kind.ACTOR, {"at_ms": wall_ms(), "name": name, "state": state, "node_id": node_id}))

    def _actors_now(self) -> dict[str, _Actor]:
        return _actors(self._gateway.view, self._gateway.forwarder.reachable, self._actors)

    async def _follow_faults(self) -> None:
        faults, after = self._gateway.faults, None
        self._knows_faults = faults is None
        while isinstance(faults, GatewayFaults):
            try:
                found = await faults.controller.happened(after)
            except (ControllerUnavailable, FaultError) as error:
                log.debug("what happens to faults is not known: %s", error)
            else:
                after, self._knows_faults = found["after"], True
                for values in found["events"]:
                    self._put(Event(Kind.FAULT, values))
            await asyncio.sleep(_PERIOD_S)

    def _put(self, event: Event) -> None:
        for put in [*self._puts]:
            put(event)


class _Part(NamedTuple):
    """Part of a journal, as its coordinator responds."""

    after: Cursor
    entries: list[tuple[Cursor, dict[str, Any]]]
    lost: int | None
    more: bool

    @classmethod
    def of(cls, response: dict[str, Any]) -> _Part:
        after = Cursor(*response["after"])
        entries = [(Cursor(after.epoch, count), json.loads(text)) for count, text in response["entries"]]
        return cls(after, entries, response["lost"], response["more"])


def _rebalance(partition: int, entry: dict[str, Any], position: Position) -> Event:
    values = {name: value for name, value in entry.items() if name != "v"}
    return Event(Kind.REBALANCE, values, position.id(partition), partition)


def _lost(partition: int, count: int | None) -> Event:
    return Event(Kind.LOST, {"count": count, "coordinator": f"{OFFSETS}-{partition}"}, partition=partition)


class _Actor(NamedTuple):
    """A process that serves."""

    node_id: str | None
    state: str
    identity: Any = None
    was_connected: bool = False
    """Whether this process of it was ever connected."""


_ALIVE, _LEAVES, _DISCONNECTED, _DOWN = "alive", "leaving", "disconnected", "down"


def _actors(
    view: ClusterView, connected: Mapping[tuple[str, int], bool], known: Mapping[str, _Actor]
) -> dict[str, _Actor]:
    """Return the actors that serve in the view, by name; those that lost their connection as disconnected."""
    owned = {"log": view.logs, OFFSETS: view.offsets, "transactions": view.transactions}
    found = {}
    for kind, endpoints in owned.items():
        for number, endpoint in endpoints.items():
            if endpoint is None:
                continue
            name, is_connected = f"{kind}-{number}", connected.get((kind, number), False)
            before = known.get(name)
            was_connected = before is not None and before.identity == endpoint and before.was_connected
            state = _DISCONNECTED if was_connected and not is_connected else _ALIVE
            found[name] = _Actor(endpoint.node_id, state, endpoint, is_connected or was_connected)
    for broker in view.brokers:
        state = _LEAVES if broker.leaves else _ALIVE
        found[f"gateway-{broker.id}"] = _Actor(broker.node_id, state, (broker.addresses, broker.metrics_url))
    return found | {"controller": _Actor(None, _ALIVE, view.controller_epoch)}


def _started(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)

"""Request faults: what a gateway does to requests if ``fault.injection.enable=true``. See docs/faults.md.

One fault acts on a request: the first injected of those that match and are due. Matching requests of a connection
wait for each other, and later requests wait for them, since a broker serves one request of a connection after the
other. None of this costs a request anything while no fault may match it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from muster.actors.faults.fields import ALWAYS, error_code
from muster.actors.faults.matching import Facts, fires, is_spent, matches, may_match, needs_facts
from muster.actors.faults.model import (
    CloseFault,
    DelayFault,
    DropFault,
    ErrorFault,
    Fault,
    NoResponseFault,
    RequestFault,
)
from muster.actors.faults.registry import Book
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import field
from muster.gateway.fetch_sessions.session import INVALID_SESSION_ID
from muster.gateway.listener.api import APIS, Call, Handler, Reply
from muster.gateway.listener.complaints import BadRequest, Cause
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway
from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

_AGAIN_S = 0.5
_GROUP = 0
"""The key type of groups in FindCoordinator."""


class FaultController(Protocol):
    """The requests that a gateway sends to the controller. Raise ControllerUnavailable, and FaultError on refusal."""

    async def book(self) -> Book: ...
    async def inject(self, fault: Fault, by: str) -> dict[str, Any]: ...
    async def held(self, *arguments: Any) -> None: ...
    async def faults(self) -> list[dict[str, Any]]: ...
    async def happened(self, after: list[int] | None) -> dict[str, Any]: ...
    async def clear(self, fault_id: str | None) -> list[str]: ...
    async def draw(self, fault_id: str) -> int: ...
    async def report(self, counts: dict[str, int]) -> None: ...
    async def run(self, node_id: str, work: Callable[..., Any], *arguments: Any) -> Any: ...


@dataclass(slots=True, eq=False)
class _Active:
    """A fault in force here."""

    id: str
    fault: RequestFault
    over: asyncio.Event
    timer: asyncio.TimerHandle | None = None
    spent: bool = False
    """Whether it can no longer act on any request."""


class _Turn:
    """The requests of one connection that wait for each other."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class GatewayFaults:
    """The request faults of one gateway; all methods run on its event loop."""

    def __init__(self, gateway: Gateway, controller: FaultController) -> None:
        self.controller = controller
        self._gateway = gateway
        self._version = -1
        self._active: dict[str, _Active] = {}
        self._turns: dict[str, _Turn] = {}
        self._unreported: Counter[str] = Counter()
        self._reporting: asyncio.Task[None] | None = None
        self._controller_epoch = gateway.view.controller_epoch
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no fault is in force here, and no request still waits for one."""
        return not self._active and not self._turns

    def take(self, book: Book) -> None:
        """Put these faults and no others in force; an older book is ignored."""
        if book.version < self._version:
            return
        self._version = book.version
        for fault_id in self._active.keys() - {fault_id for fault_id, _, _ in book.faults}:
            self._end(fault_id)
        for fault_id, fault, left_ms in book.faults:
            if fault_id not in self._active and fault.gateway in (None, self._gateway.id):
                self._begin(fault_id, fault, left_ms)

    def followed(self, view: ClusterView) -> None:
        """Query a new controller for the faults in force: the previous one may have died before informing everyone."""
        if view.controller_epoch == self._controller_epoch:
            return
        self._controller_epoch = view.controller_epoch
        self._refresh()

    async def fetch(self, timeout_s: float) -> None:
        """Put the faults in force that the controller has; later if it does not respond by then."""
        try:
            async with asyncio.timeout(timeout_s):
                self.take(await self.controller.book())
        except (ControllerUnavailable, TimeoutError) as error:
            log.info("faults are injected later: %s", error)
            self._refresh()

    def _refresh(self) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._fetch_until_known())

    async def _fetch_until_known(self) -> None:
        while True:
            try:
                self.take(await self.controller.book())
                return
            except ControllerUnavailable as error:
                log.info("the controller is queried again for the faults in force: %s", error)
                await asyncio.sleep(_AGAIN_S)

    def _begin(self, fault_id: str, fault: RequestFault, left_ms: int | None) -> None:
        active = self._active[fault_id] = _Active(fault_id, fault, asyncio.Event())
        if left_ms is not None:
            active.timer = asyncio.get_running_loop().call_later(left_ms / 1000, self._end, fault_id)

    def _end(self, fault_id: str) -> None:
        active = self._active.pop(fault_id, None)
        if active is not None:
            if active.timer is not None:
                active.timer.cancel()
            active.over.set()

    async def serve(self, call: Call, api: str, handler: Handler) -> Reply | None:
        """Return the handler's response, unless a fault changes it. BadRequest closes the connection."""
        turn = self._turns.get(call.connection.id)
        if turn is None and not any(self._candidates(call, api)):
            return await handler(call)
        after = await self._in_turn(call, api)
        if isinstance(after, _Done):
            return after.reply
        reply = await handler(call)
        return reply if after is None else await self._after(after, call, reply)

    async def _in_turn(self, call: Call, api: str) -> _Active | _Done | None:
        """Return the fault that acts after the handler, or what was done instead.

        The handler must then start at once.
        """
        turn = self._turns.setdefault(call.connection.id, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                chosen = await self._chosen(call, api)
                if chosen is None:
                    return None
                self._say(chosen, call, api)
                return chosen if chosen.fault.phase == "after" else await self._before(chosen, call)
        finally:
            turn.users -= 1
            if not turn.users:
                self._turns.pop(call.connection.id, None)

    def _candidates(self, call: Call, api: str) -> Iterator[_Active]:
        client_id, own = call.header.client_id, self._gateway.id
        for active in self._active.values():
            if not active.spent and may_match(active.fault, gateway=own, api=api, client_id=client_id):
                yield active

    async def _chosen(self, call: Call, api: str) -> _Active | None:
        facts: Facts | None = None
        for active in list(self._candidates(call, api)):
            if needs_facts(active.fault):
                try:
                    facts = facts or facts_of(call)
                except codec.UndecodableRequest:
                    return None
                if not matches(active.fault, facts):
                    continue
            if await self._acts(active) and not active.over.is_set():
                return active
        return None

    async def _acts(self, active: _Active) -> bool:
        if active.fault.when == ALWAYS:
            self._unreported[active.id] += 1
            self._report()
            return True
        try:
            number = await self.controller.draw(active.id)
        except ControllerUnavailable as error:
            log.warning(
                "fault %s does not act on a request that it matches: no controller counts it (%s)", active.id, error
            )
            return False
        active.spent = is_spent(active.fault, number)
        return number > 0 and fires(active.fault, number)

    def _report(self) -> None:
        if self._reporting is None or self._reporting.done():
            self._reporting = asyncio.get_running_loop().create_task(self._send_reports())

    async def _send_reports(self) -> None:
        while self._unreported:
            counts, self._unreported = self._unreported, Counter()
            try:
                await self.controller.report(dict(counts))
            except ControllerUnavailable:
                self._unreported.update(counts)
                return

    async def reported(self) -> None:
        """Return once the controller has received all counts of injected faults, as far as it can be reached."""
        if self._unreported:
            self._report()
        if self._reporting is not None:
            await asyncio.shield(self._reporting)

    async def _before(self, active: _Active, call: Call) -> _Done | None:
        if isinstance(active.fault, DelayFault):
            await self._delay(active, active.fault)
            return None
        return _Done(await self._instead(active, call, None))

    async def _after(self, active: _Active, call: Call, reply: Reply | None) -> Reply | None:
        if isinstance(active.fault, DelayFault):
            await self._delay(active, active.fault)
            return reply
        return await self._instead(active, call, reply)

    async def _instead(self, active: _Active, call: Call, reply: Reply | None) -> Reply | None:
        """Return the client's substitute for a response."""
        fault = active.fault
        if isinstance(fault, ErrorFault):
            body = APIS[call.header.api_key].error_body(call, error_code(fault.error))
            return call.reply({"throttle_time": 0, **body} if isinstance(body, dict) else body)
        if isinstance(fault, DropFault):
            return None
        if isinstance(fault, NoResponseFault):
            await active.over.wait()
            raise BadRequest(Cause.FAULT, f"fault {active.id}, which withheld an answer, is over")
        assert isinstance(fault, CloseFault)
        raise BadRequest(Cause.FAULT, f"fault {active.id}")

    async def _delay(self, active: _Active, fault: DelayFault) -> None:
        """Wait; ends early if the fault is cleared."""
        try:
            async with asyncio.timeout(fault.delay_ms / 1000):
                await active.over.wait()
        except TimeoutError:
            return

    def _say(self, active: _Active, call: Call, api: str) -> None:
        fault, connection = active.fault, call.connection
        what = f"{fault.action} {fault.error}" if isinstance(fault, ErrorFault) else fault.action
        self._gateway.metrics.fault_injected(fault.action, api=api)
        log.warning(
            "fault %s: %s (%s) to %s, correlation id %d, of client %.200r, connection %s of %s:%d",
            *(active.id, what, fault.phase, api, call.header.correlation_id, call.header.client_id),
            *(connection.id, connection.host, connection.port),
            extra={**call.header.log_fields, **connection.log_fields, "api": api},
        )


@dataclass(frozen=True, slots=True)
class _Done:
    """The request no longer needs a handler: this is sent."""

    reply: Reply | None


_TOPIC_FIELDS = ("topics", "topic_data", "topic_partitions", "v3_and_below_topics")
"""Names of the field with topics; each version of an API has one at most."""
_WITH_TOPICS = ("markers", "transactions", "dirs")
"""Items that each have topics."""


def facts_of(call: Call) -> Facts:
    """Return the names in the request's body. Raises codec.UndecodableRequest."""
    gateway, request = call.gateway, call.entity()
    groups = {group for group in _groups(request) if group}
    return Facts(
        groups=frozenset(groups),
        members=frozenset(member for member in _members(request) if member),
        topics=_topics(gateway, request, _of_session(gateway, request)),
        offsets_partitions=frozenset(map(gateway.partition_of, groups)),
    )


def _groups(request: Any) -> Iterator[str | None]:
    yield field(request, "group_id", None)
    yield from field(request, "groups_names", ())
    yield from field(request, "group_ids", ())
    for group in field(request, "groups", ()):
        yield group if isinstance(group, str) else group.group_id
    if field(request, "key_type", _GROUP) == _GROUP:
        yield field(request, "key", None)
        yield from field(request, "coordinator_keys", ())


def _members(request: Any) -> Iterator[str | None]:
    for item in (request, *field(request, "members", ()), *field(request, "groups", ())):
        yield field(item, "member_id", None)
        yield field(item, "group_instance_id", None)
        yield field(item, "instance_id", None)


def _of_session(gateway: Gateway, request: Any) -> Iterator[tuple[str, int]]:
    """Yield the partitions that a Fetch continues to fetch without naming them."""
    session = gateway.fetch_sessions.get(field(request, "session_id", INVALID_SESSION_ID))
    for name, topic_id, partition in session.partitions if session is not None else ():
        topic = gateway.topic(name, topic_id)
        if topic is not None:
            yield topic.name, partition


def _topics(gateway: Gateway, request: Any, more: Iterable[tuple[str, int]]) -> dict[str, frozenset[int]]:
    """Partitions by topic name; a topic that is named by an id unknown here is left out."""
    found: dict[str, set[int]] = {name: set() for name in field(request, "topic_names", ())}
    for name, partition in more:
        found.setdefault(name, set()).add(partition)
    of_groups = (field(group, "topics", ()) or () for group in field(request, "groups", ()))
    of_others = (each.topics for items in _WITH_TOPICS for each in field(request, items, ()))
    own = (topic for name in _TOPIC_FIELDS for topic in field(request, name, None) or ())
    for topic in (*own, *(topic for topics in (*of_groups, *of_others) for topic in topics)):
        if named := _name(gateway, topic):
            found.setdefault(named, set()).update(_partitions(topic))
    return {name: frozenset(partitions) for name, partitions in found.items()}


def _name(gateway: Gateway, topic: Any) -> str | None:
    if isinstance(topic, str):
        return topic
    name: str | None = field(topic, "name", None) or field(topic, "topic", None)
    if name:
        return name
    known = gateway.topic(None, field(topic, "topic_id", None))
    return known.name if known else None


def _partitions(topic: Any) -> Iterator[int]:
    yield from field(topic, "partition_indexes", ())
    for partition in (*(field(topic, "partitions", ()) or ()), *field(topic, "partition_data", ())):
        if isinstance(partition, int):
            yield partition
            continue
        for name in ("index", "partition", "partition_index"):
            if (index := field(partition, name, None)) is not None:
                yield index
                break

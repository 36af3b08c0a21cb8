"""The Kafka APIs that the gateway serves. ApiVersions responds from this table, so the two cannot differ."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import Body, ErrorCode
from muster.actors.wire.kafka.framing import Buffer
from muster.actors.wire.kafka.step_writer import encode_response_in_steps
from muster.actors.wire.kafka.steps import Steps
from muster.gateway.listener.file_records import FileRecords
from muster.gateway.listener.gateway import ClientConnection, Gateway
from muster.gateway.listener.limiting.throttling import BusyTime
from muster.gateway.security.authorization.authorization_log import Decision
from muster.gateway.security.authorization.authorizer import SUPPORTED
from muster.placement.security.acls import WILDCARD, AclOperation, AclResourceType

A = TypeVar("A")
B = TypeVar("B")

MAX_AT_ONCE = 500
"""Elements of a request that are read at once, and of an array of a response that are written at once. More take turns
with what other connections send (:mod:`muster.gateway.listener.limiting.turns`)."""
LONG_BYTES = 1_000
"""Frames up to this size are decoded at once, whatever they contain."""


class Reply(NamedTuple):
    """A response frame without its size, in parts, and the callback for when it is written to the socket."""

    parts: Sequence[Buffer | FileRecords]
    on_sent: Callable[[], None] | None = None
    unwritten: Steps[list[Buffer]] | None = None
    """Steps that write the parts, if there are none yet: see :meth:`Call.written`."""
    has_files: bool = False
    """Whether any of the parts is in a file."""

    @property
    def in_memory(self) -> Sequence[Buffer]:
        """The parts of a response of which no part in a file is looked into."""
        return cast(Sequence[Buffer], self.parts)

    def give_back(self) -> None:
        """Free the memory of what is in files: the response has to wait."""
        for part in self.parts if self.has_files else ():
            if isinstance(part, FileRecords):
                part.give_back()


class LargeRequest(Exception):
    """The request has so many elements that they must not be read at once: :meth:`Call.read` reads them by turns."""


_Decided = tuple[bool, AclOperation, AclResourceType, str, int, bool]
"""The arguments of :meth:`Call.decided`."""


@dataclass(slots=True)
class Call:
    """One request on one connection."""

    gateway: Gateway
    connection: ClientConnection
    header: codec.Header
    frame: bytes
    peeked: Any = field(default=None, init=False)
    """Parts that the API's module has read without decoding all."""
    reason: str = field(default="injected by a fault", init=False)
    """The error message of an :data:`ErrorBody`, in the APIs that have one."""
    _held: list[_Decided] | None = field(default=None, init=False)
    """Decisions that may be made again."""
    throttle_ms: int = field(default=0, init=False)
    """For how long the client has to pause (:meth:`pause`)."""
    timer: BusyTime | None = field(default=None, init=False)
    """Timer of the request, if its time is limited."""
    _whole: Call | None = field(default=None, init=False)
    """The request of which this is a part."""
    is_forwarded: bool = field(default=False, init=False)
    """Whether another process serves it. If it has not been read, it need not be, but for an error or for the trail."""
    is_large: bool = field(default=False, init=False)
    """Whether it has more elements than may be served at once."""
    _entity: Any = field(default=None, init=False)

    def entity(self) -> Any:
        """Return the request as an entity of its version, decoded once.

        Raises codec.UndecodableRequest or LargeRequest. A handler leaves LargeRequest to
        :class:`~muster.gateway.listener.pending.PendingRequest`, which reads the request and calls it again.
        """
        if self._entity is None:
            is_short = self.is_forwarded or len(self.frame) <= LONG_BYTES
            try:
                self._entity = codec.decode_request(self.header, self.frame, None if is_short else MAX_AT_ONCE)
            except codec.TooManyElements as error:
                raise LargeRequest(str(error)) from error
        return self._entity

    async def read(self) -> None:
        """Read a large request; :meth:`entity` has it then. Raises codec.UndecodableRequest."""
        self.is_large = True
        self._entity = await self.gateway.turns.run(codec.decode_request_in_steps(self.header, self.frame))

    async def each(self, items: Iterable[A], work: Callable[[A], B]) -> list[B]:
        """Return the result of ``work`` for each of them; if it takes long, others are served meanwhile.

        So others may change what it changes or looks at, except for short requests, which have no more than MAX_AT_ONCE
        elements.
        """
        if not self.is_large:
            return [work(item) for item in items]
        return await self.gateway.turns.run(_steps(items, work))

    async def written(self, reply: Reply) -> Reply:
        """Return the reply with its parts. Raises the errors of ``codec.encode_response``."""
        if reply.unwritten is None:
            return reply
        return reply._replace(parts=await self.gateway.turns.run(reply.unwritten), unwritten=None)

    def allows(
        self, operation: AclOperation, resource: AclResourceType, name: str, *, count: int = 1, logged: bool = True
    ) -> bool:
        """Whether the client may do that with the resource of that name.

        ``count``: how often the request refers to it. ``logged``: False where a denial refuses nothing: a list only
        leaves something out, or another right suffices.
        """
        authorizer, client = self.gateway.authorizer, self.connection
        if authorizer is None:
            return True
        allowed = authorizer.allows(client.principal, client.host, operation, resource, name)
        self.decided(allowed, operation, resource, name, count=count, logged=logged)
        return allowed

    def decided(
        self,
        allowed: bool,
        operation: AclOperation,
        resource: AclResourceType,
        name: str,
        *,
        count: int = 1,
        logged: bool = True,
    ) -> None:
        """Count and log a decision of the authorizer about the client; :meth:`allows` does this itself."""
        if self._held is not None:
            self._held.append((allowed, operation, resource, name, count, logged))
            return
        self.gateway.metrics.authorized(allowed)
        log = self.gateway.authorization_log
        if log.logs_allowed if allowed else logged:
            client, api_name = self.connection, APIS[self.header.api_key].name
            log.decided(Decision(allowed, client.principal, client.host, operation, resource, name, api_name, count))

    def try_guard(self, guard: Guard) -> Callable[[], None] | None:
        """None if the guard does not let the request pass; else what counts and logs its decisions.

        They are neither counted nor logged before: a handler that is called later has them made again.
        """
        held: list[_Decided] = []
        self._held = held
        try:
            passes = guard.passes(self)
        finally:
            self._held = None

        def confirm() -> None:
            for allowed, operation, resource, name, count, logged in held:
                self.decided(allowed, operation, resource, name, count=count, logged=logged)

        return confirm if passes else None

    def allows_any(self, operation: AclOperation, resource: AclResourceType) -> bool:
        """Whether there may be a resource of that type, existing or not, with which the client may do that."""
        authorizer, client = self.gateway.authorizer, self.connection
        if authorizer is None:
            return True
        allowed = authorizer.allows_any(client.principal, client.host, operation, resource)
        self.decided(allowed, operation, resource, WILDCARD)
        return allowed

    def operations(self, resource: AclResourceType, name: str) -> int:
        """Return the client's operations on the resource of that name: ``1 << operation`` for each (KIP-430)."""
        authorizer, client = self.gateway.authorizer, self.connection
        if authorizer is None:
            return SUPPORTED[resource]
        return authorizer.operations(client.principal, client.host, resource, name)

    def part(self, entity: Any) -> Call:
        """Return the request with another body, for code that does not look at the frame."""
        call = Call(self.gateway, self.connection, self.header, self.frame)
        call._entity, call.timer, call._whole, call.is_large = entity, self.timer, self, self.is_large
        return call

    def narrowed(self, entity: Any) -> Call:
        """Return the request with another body, for the same client."""
        header = self.header
        frame = codec.encode_request(
            header.api_key, header.api_version, header.correlation_id, header.client_id, entity
        )
        part = self.part(entity)
        part.header, part.frame = codec.decode_header(frame), frame
        part.is_large = self.is_large and len(frame) > LONG_BYTES
        return part

    def pause(self, throttle_ms: int) -> None:
        """Have the client pause for so long, after what the handler has charged to its quotas."""
        self.throttle_ms = max(self.throttle_ms, throttle_ms)
        if self._whole is not None:
            self._whole.pause(throttle_ms)

    def reply(self, body: Body) -> Reply:
        """Return a response in the request's version. That to a large request is not written yet."""
        header = self.header
        if self.is_large:
            steps = encode_response_in_steps(header.api_key, header.api_version, header.correlation_id, body)
            return Reply((), unwritten=steps)
        parts = codec.encode_response_parts(header.api_key, header.api_version, header.correlation_id, body)
        return Reply(parts)

    def reply_joined(self, body: Body, elements: Sequence[bytes]) -> Reply:
        """Return a response that ends with an array of elements of ``codec.split_response``, empty in ``body``."""
        header = self.header
        frame = codec.join_response(header.api_key, header.api_version, header.correlation_id, body, elements)
        return Reply((frame,))


def _steps(items: Iterable[A], work: Callable[[A], B]) -> Steps[list[B]]:
    results = []
    for item in items:
        results.append(work(item))
        yield
    return results


Handler = Callable[[Call], Awaitable[Reply | None]]
"""Handles a call; returns None where Kafka sends no response. Handlers of one connection start in the order of its
requests and may run concurrently; the connection sends their responses in that order. What must keep its order
(Produce) is forwarded before the first await; what other requests may depend on is served alone (``is_change``)."""


class Responder(Protocol):
    """Where the response to a call goes."""

    def reply(self, reply: Reply | None) -> None:
        """Send this response; None where Kafka sends none."""

    def fail(self, error: BaseException) -> None:
        """There is no response; the connection cannot continue."""


Cancel = Callable[[], object]
Forward = Callable[[Call, Responder], Cancel | None]
"""Forwards a call to another process at once; the responder gets the response later. Returns what gives the call up.
None: something has to be awaited first, and the handler has to serve the call. A task would cost as much as
half of all else, so none is created."""


ErrorBody = Callable[[Call, ErrorCode], Body]
"""The body of a response with this error: for every item of the request if the API has errors of items, since clients
act on those, else for the whole request. Raises BadRequest if no response can carry it."""


class Rule(NamedTuple):
    """Rights that a client needs for a request, for the documentation."""

    rights: Sequence[Any]
    """One of them suffices."""
    of: str
    """Subject of the rights; empty if their type says it."""
    error: ErrorCode | None
    """None if what is not allowed is left out."""
    of_all: bool = False
    """Whether the whole request is refused."""


class Guard(Protocol):
    """Lets a client have of an API what it is allowed; see :mod:`muster.gateway.apis.guards`."""

    @property
    def rules(self) -> Sequence[Rule]:
        """For the documentation."""

    def passes(self, call: Call) -> bool:
        """Whether the call may be served as if there were no guard. Raises UndecodableRequest."""

    async def serve(self, api: Api, call: Call) -> Reply | None:
        """Serve what is allowed of a call by the API's handler, and refuse the rest. Judges and begins at once."""


@dataclass(frozen=True, slots=True)
class Api:
    key: int
    name: str
    """Name in the protocol guide, for logs and metrics."""
    versions: range
    left_out: str
    """Why versions that kio has are not served; empty if all are."""
    handler: Handler
    forward: Forward | None
    """Tried before the handler, while no fault is in force."""
    error_body: ErrorBody
    is_evidence: bool
    """Only a consumer of the group sends it, so its connection works for the group that it names."""
    one_at_a_time: bool
    """Whether a connection has one at a time: responses may be large (fetch.max.bytes) or come from many actors."""
    is_change: bool
    """An administrative change. Later requests of its connection are served once it is answered: a Kafka broker serves
    a connection's requests one after the other, and admin clients create a topic, then list topics without waiting in
    between, and expect to find it."""
    in_order: bool
    """Whether it is served once all earlier requests of its connection are answered, as a Kafka broker serves every
    request: where a client holds the response against what it has read, an older end of the log looks like lost
    records."""
    guard: Guard
    """Tried before the forwarding and the handler, if there is an authorizer."""


APIS: dict[int, Api] = {}


def api(
    key: int,
    name: str,
    *,
    guard: Guard,
    error_body: ErrorBody,
    forward: Forward | None = None,
    versions: range | None = None,
    left_out: str = "",
    is_evidence: bool = False,
    one_at_a_time: bool = False,
    is_change: bool = False,
    in_order: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a handler for an API; the arguments are the fields of :class:`Api`.

    Without ``versions``, all that kio has are served. Raises ValueError if not all are and ``left_out`` does not say
    why.
    """
    known = codec.versions_of(key)
    served = versions or known
    if (set(served) != set(known)) != bool(left_out):
        raise ValueError(f"{name}: say why versions are left out, where they are")

    def register(handler: Handler) -> Handler:
        if key in APIS:
            raise ValueError(f"{name}: api key {key} is registered twice")
        APIS[key] = Api(
            key=key,
            name=name,
            versions=served,
            left_out=left_out,
            handler=handler,
            forward=forward,
            error_body=error_body,
            is_evidence=is_evidence,
            one_at_a_time=one_at_a_time,
            is_change=is_change,
            in_order=in_order,
            guard=guard,
        )
        return handler

    return register

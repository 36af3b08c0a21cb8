"""Kafka's requests of an HTTP caller: what the HTTP port does to groups and topics, it does as a client would.

A request is served by the handler of its API, behind the API's guard, as the caller's principal and host. So ACLs
decide as they do on a listener, and an administrative request is in the audit log, through the door ``http``.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from muster.actors.config import Listener
from muster.actors.wire.internal import envelope
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.framing import Buffer
from muster.gateway.attribution.connection import ConnectionState
from muster.gateway.client.errors import MusterError, NoResponse
from muster.gateway.client.kafka.brokers import RETRIABLE, errors_in
from muster.gateway.client.kafka.refusals import Refused
from muster.gateway.http.callers import DOOR, Caller, current_caller
from muster.gateway.http.groups import Failed
from muster.gateway.listener.api import APIS, Call, Reply
from muster.gateway.listener.complaints import Cause, Complaint
from muster.gateway.listener.file_records import FileRecords
from muster.gateway.listener.gateway import Gateway
from muster.gateway.listener.leased import LeasedHeartbeats
from muster.gateway.listener.pending import PendingRequest
from muster.gateway.security.session import SaslSession

T = TypeVar("T")
CLIENT_ID = "muster-http"
_REQUEST_S = 15.0
_RETRY_S = 10.0
"""For how long a request is repeated that a coordinator could not serve yet, as a client would."""
_PAUSE_S = 0.1
_AT_ONCE = 8
"""Works in threads. Each waits for this gateway's own loop, so more would only wait for each other."""
_NUMBERS = itertools.count(1)


class CallerConnection:
    """A :class:`~muster.gateway.listener.gateway.ClientConnection` for the requests of one caller; it has no socket."""

    def __init__(self, gateway: Gateway, caller: Caller) -> None:
        self.id = f"http-{next(_NUMBERS)}"
        self.host, self.port, self.principal = caller.host, 0, caller.principal
        self.listener: Listener = gateway.config.all_listeners[0]
        self.context = envelope.write_context(self.host, self.id, self.principal)
        self.sasl: SaslSession | None = None
        self.door = DOOR
        self.attribution = ConnectionState(opened_ms=gateway.now_ms())
        self.attribution.principal = caller.principal
        self.software = (CLIENT_ID, "unknown")
        self.last_active_s = 0.0
        self.leases = LeasedHeartbeats()
        self.has_old_metadata = False
        self.late_produces = 0
        self.late_turn = asyncio.Lock()
        self.tasks = 0
        self.waiting = False
        self.is_muted = False

    @property
    def log_fields(self) -> dict[str, object]:
        """Fields of their own in log lines about it."""
        return {"connection": self.id, "client_host": self.host, "principal": self.principal}

    def unmute(self) -> None: ...
    def close_if_left(self) -> None: ...
    def authenticated(self, user: str) -> None: ...
    def refuse(self, cause: Cause, text: str) -> None: ...
    def close(self, complaint: Complaint | None = None) -> None: ...
    def end_when_idle(self) -> None: ...
    def end_soon(self, complaint: Complaint) -> None: ...


class KafkaRequests:
    """Kafka's requests of one caller. Use it in a ``with`` block (:func:`requests_of`)."""

    def __init__(self, gateway: Gateway, caller: Caller, client_id: str = CLIENT_ID) -> None:
        self._gateway = gateway
        self._client_id = client_id
        self._connection = CallerConnection(gateway, caller)

    async def send(self, api_key: int, version: int, body: dict[str, Any]) -> Any:
        """Return the response, decoded; request again for a while if an error of it passes by itself.

        Raises NoResponse if there is none in time.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _RETRY_S
        while True:
            response = await self.send_once(api_key, version, body)
            if loop.time() > until_s or not any(error in RETRIABLE for error in errors_in(response)):
                return response
            await asyncio.sleep(_PAUSE_S)

    async def send_once(self, api_key: int, version: int, body: dict[str, Any]) -> Any:
        """Return the response, decoded, whatever its errors. Raises NoResponse: it may have been carried out."""
        frame = codec.encode_request(api_key, version, 0, self._client_id, body)
        call = Call(self._gateway, self._connection, codec.decode_header(frame), frame)
        is_done = asyncio.Event()
        pending = PendingRequest(APIS[api_key], call, is_done.set)
        pending.start()
        try:
            async with asyncio.timeout(_REQUEST_S):
                await is_done.wait()
        except TimeoutError:
            raise NoResponse("gateway", f"{APIS[api_key].name} took {_REQUEST_S:g} s") from None
        finally:
            pending.cancel()
        if pending.response is None:
            raise NoResponse("gateway", "an internal error" if pending.complaint is None else str(pending.complaint))
        whole = await _whole(pending.response)
        if pending.response.on_sent is not None:
            pending.response.on_sent()
        return codec.decode_response(api_key, version, whole)[1]

    def close(self) -> None:
        """Forget what its requests were evidence of."""
        self._gateway.account.closed(self._connection.attribution)


async def _whole(reply: Reply) -> bytes:
    """Return the response in one piece, with the records that are in files. Raises NoResponse if they cannot be read.

    Their memory was given back when the response was there, as for a client that does not take it at once.
    """
    if not reply.has_files:
        return b"".join(bytes(part) for part in reply.in_memory)
    try:
        return await asyncio.to_thread(lambda: b"".join(map(_content, reply.parts)))
    except OSError as error:
        raise NoResponse("gateway", f"records cannot be read: {error.strerror}") from error


def _content(part: Buffer | FileRecords) -> bytes:
    if not isinstance(part, FileRecords):
        return bytes(part)
    if (content := part.content) is not None:
        return bytes(content)
    pieces: list[bytes] = []
    at = 0
    while at < len(part):
        pieces.append(part.read(at, len(part)))
        at += len(pieces[-1])
    return b"".join(pieces)


@contextmanager
def requests_of(gateway: Gateway, caller: Caller, client_id: str = CLIENT_ID) -> Iterator[KafkaRequests]:
    """Return requests of that caller. ``client_id``: what attribution takes its fetches for."""
    requests = KafkaRequests(gateway, caller, client_id)
    try:
        yield requests
    finally:
        requests.close()


class ThreadRequests:
    """Requests for code in a thread, which blocks; to the coordinator of any group, too.

    It is a :class:`muster.gateway.client.groups.coordinators.GroupCoordinator`.
    """

    def __init__(self, requests: KafkaRequests, loop: asyncio.AbstractEventLoop, group: str = "") -> None:
        self._requests, self._loop, self._group = requests, loop, group

    def request(self, api_key: int, version: int, body: dict[str, Any], /) -> Any:
        """Return the decoded response. Raises NoResponse."""
        sent = asyncio.run_coroutine_threadsafe(self._requests.send(api_key, version, body), self._loop)
        try:
            return sent.result(_RETRY_S + 2 * _REQUEST_S)
        except TimeoutError:  # the loop has ended; the thread must, too
            raise NoResponse("gateway", "it stops") from None

    @property
    def group(self) -> str:
        return self._group

    @property
    def address(self) -> str:
        """Empty: the gateway itself forwards to the coordinator."""
        return ""

    @contextmanager
    def coordinator(self, group: str) -> Iterator[ThreadRequests]:
        """See :data:`muster.gateway.client.groups.coordinators.CoordinatorOf`."""
        yield ThreadRequests(self._requests, self._loop, group)


class Works:
    """Work of requests that blocks, in threads; few at once."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def run(self, work: Callable[[ThreadRequests], T]) -> T:
        """Return what ``work`` returns, called with the current caller's requests. Raises Failed."""
        with requests_of(self._gateway, current_caller()) as requests:
            async with self._turns:
                blocking = ThreadRequests(requests, asyncio.get_running_loop())
                return await translated(asyncio.to_thread(work, blocking))


async def translated(work: Awaitable[T]) -> T:
    """Return its result. Raises Failed for the errors of Kafka's requests."""
    try:
        return await work
    except NoResponse as error:
        raise Failed(503, error.message) from error
    except Refused as error:
        raise Failed(status_of(error.error), error.message) from error
    except MusterError as error:
        raise Failed(409, error.message) from error


def status_of(error: codec.ErrorCode) -> int:
    """Return HTTP's status for an error of Kafka's."""
    if error.name.endswith("authorization_failed"):
        return 403
    if error.name in _NOT_FOUND:
        return 404
    return 503 if error in RETRIABLE else 409


_NOT_FOUND = ("unknown_topic_or_partition", "group_id_not_found", "unknown_member_id", "unknown_topic_id")

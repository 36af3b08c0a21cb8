"""Requests to any broker, to one of them, or to a coordinator, repeated while that may help."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import InvalidClientConfig, NoResponse
from muster.gateway.client.kafka.connection import RESPONSE_S, Connection
from muster.gateway.client.kafka.refusals import check
from muster.placement.host_port import host_port

if TYPE_CHECKING:
    from muster.gateway.client.security import Security

FIND_COORDINATOR = 10
GROUP, TRANSACTION = 0, 1
"""Types of the key of FindCoordinator."""
_KEY_TYPES = ("group", "transactional id")
TIMEOUT_S = 15.0
"""Time for one request with all its repetitions."""
RETRIABLE = frozenset(
    (
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.request_timed_out,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.offset_not_available,
        ErrorCode.kafka_storage_error,
    )
)
"""Errors that pass by themselves."""
_FIND_COORDINATOR_VERSION = 4
_PAUSE_S = 0.1
_FIND_S = 5.0
"""Limit of FindCoordinator: another gateway may find it."""


class Brokers:
    """Any of these brokers. Use it in a ``with`` block, or close it. Every gateway of Muster serves every request."""

    def __init__(self, bootstrap: str, client_id: str, security: Security | None = None) -> None:
        """Take ``bootstrap``, a list as Kafka clients have it. Raises InvalidClientConfig."""
        self._addresses: Sequence[tuple[str, int]] = tuple(addresses(bootstrap))
        if not self._addresses:
            raise InvalidClientConfig(f"there is no HOST:PORT in {bootstrap!r}")
        self._client_id, self._security = client_id, security
        self._connection: Connection | None = None

    @property
    def count(self) -> int:
        """Number of addresses."""
        return len(self._addresses)

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"broker at {', '.join(host_port(*each) for each in self._addresses)}"

    def at(self, address: str) -> Brokers:
        """Return a client of the broker at ``HOST:PORT``, with the same login. Close it as well."""
        return Brokers(address, self._client_id, self._security)

    def connect_to(self, host: str, port: int) -> Connection:
        """Return a new connection to that broker, with the same login. Raises OSError or LoginFailed."""
        return Connection(host, port, RESPONSE_S, self._client_id, self._security)

    def request(
        self,
        api_key: int,
        version: int,
        body: dict[str, Any],
        *,
        retriable: Collection[ErrorCode] = RETRIABLE,
        is_repeatable: bool = True,
        timeout_s: float | None = None,
        each_s: float = RESPONSE_S,
    ) -> Any:
        """Return the response, decoded; request again while it has an error that is ``retriable``.

        It is also repeated when a connection is lost, or silent for ``each_s``, on the next broker: unless it is not
        ``is_repeatable`` and was sent. Raises NoResponse after ``timeout_s`` (``TIMEOUT_S``), and not before each of
        the brokers was tried.
        """
        deadline = time.monotonic() + (TIMEOUT_S if timeout_s is None else timeout_s)
        for attempt in itertools.count(1):
            is_sent = False
            try:
                connection = self._connected(each_s)
                is_sent = True
                response = connection.request(api_key, version, body, each_s)
                error = next((each for each in errors_in(response) if each in retriable), None)
                if error is None:
                    return response
                failure = self._no_response(error.name.upper(), "is not ready")
            except OSError as lost:
                failure = self._no_response(str(lost))
                if is_sent and not is_repeatable:
                    self.close()
                    raise self._no_response(f"{lost}; it may have done what was requested") from lost
            self.close()
            if time.monotonic() > deadline and attempt >= self.count:
                raise failure
            time.sleep(_PAUSE_S)
        raise AssertionError("unreachable")

    def _no_response(self, why: str, does: str = "does not respond") -> NoResponse:
        return NoResponse(self.name, why, does)

    def _connected(self, each_s: float) -> Connection:
        if self._connection is None:
            self._connection = self._connect(each_s)
        return self._connection

    def _connect(self, each_s: float) -> Connection:
        """Connect to the first that accepts it, those last that were used before. Raises OSError."""
        failure: OSError | None = None
        for address in self._addresses:
            self._addresses = (*self._addresses[1:], address)
            try:
                return Connection(*address, each_s, self._client_id, self._security)
            except OSError as error:
                failure = error
        raise failure or ConnectionError("no address")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Coordinator(Brokers):
    """The coordinator of one group or transactional id, wherever it is."""

    def __init__(
        self, bootstrap: str, key: str, client_id: str, security: Security | None = None, key_type: int = GROUP
    ) -> None:
        """``key``: a group, or a transactional id with ``key_type`` TRANSACTION. Raises InvalidClientConfig."""
        super().__init__(bootstrap, client_id, security)
        self._key, self._key_type = key, key_type

    @property
    def name(self) -> str:
        return f"coordinator of {_KEY_TYPES[self._key_type]} {self._key}"

    @property
    def address(self) -> str:
        """``HOST:PORT``; empty while unknown."""
        return host_port(*self._connection.address) if self._connection else ""

    def _connect(self, each_s: float) -> Connection:
        """Connect to the coordinator. Raises OSError, or Refused, such as for want of a right."""
        with contextlib.closing(super()._connect(min(each_s, _FIND_S))) as connection:
            body = {"key_type": self._key_type, "coordinator_keys": [self._key]}
            (found,) = connection.request(FIND_COORDINATOR, _FIND_COORDINATOR_VERSION, body).coordinators
        if found.error_code in RETRIABLE:
            raise ConnectionError(f"FindCoordinator: {found.error_code.name.upper()}")
        check(found, f"the {self.name} cannot be found")
        return Connection(found.host, found.port, each_s, self._client_id, self._security)


def addresses(bootstrap: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of each. Raises InvalidClientConfig."""
    for part in filter(None, (text.strip() for text in bootstrap.split(","))):
        host, _, port = part.rpartition("://")[2].rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
            raise InvalidClientConfig(f"{part} is not HOST:PORT")
        yield host.strip("[]"), int(port)


def errors_in(response: Any) -> Iterator[ErrorCode]:
    """Yield every error code anywhere in a response."""
    for declared in dataclasses.fields(response):
        value = getattr(response, declared.name)
        if isinstance(value, ErrorCode):
            if value is not ErrorCode.none:
                yield value
        elif isinstance(value, tuple):
            for item in value:
                if dataclasses.is_dataclass(item):
                    yield from errors_in(item)

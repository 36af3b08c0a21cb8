"""Requests to any gateway, to one of them, or to the coordinator of a group, repeated while that may help."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Self

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli.client.connection import RESPONSE_S, Connection
from muster.gateway.cli.errors import CliError
from muster.placement.host_port import host_port

FIND_COORDINATOR = 10
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


class NoResponse(CliError):
    """No timely response, or none but that it may come later."""

    def __init__(self, who: str, why: str, does: str = "does not respond") -> None:
        super().__init__(f"the {who} {does} ({why}); see muster status")
        self.why = why


class Gateways:
    """Any of these gateways, each of which serves every request. Use it in a ``with`` block, or close it."""

    def __init__(self, bootstrap: str) -> None:
        """Take ``bootstrap``, a list as Kafka clients have it. Raises CliError if it is invalid."""
        self._addresses: Sequence[tuple[str, int]] = tuple(addresses(bootstrap))
        if not self._addresses:
            raise CliError(f"there is no HOST:PORT in {bootstrap!r}")
        self._connection: Connection | None = None

    @property
    def count(self) -> int:
        """Number of addresses."""
        return len(self._addresses)

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"gateway at {', '.join(host_port(*each) for each in self._addresses)}"

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

        It is also repeated when a connection is lost, or silent for ``each_s``, on the next gateway: unless it is not
        ``is_repeatable`` and was sent. Raises NoResponse after ``timeout_s`` (``TIMEOUT_S``), and not before each of
        the gateways was tried.
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
                failure = NoResponse(self.name, error.name.upper(), "is not ready")
            except OSError as lost:
                failure = NoResponse(self.name, str(lost))
                if is_sent and not is_repeatable:
                    self.close()
                    raise NoResponse(self.name, f"{lost}; it may have done what was requested") from lost
            self.close()
            if time.monotonic() > deadline and attempt >= self.count:
                raise failure
            time.sleep(_PAUSE_S)
        raise AssertionError("unreachable")

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
                return Connection(*address, each_s)
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


class Coordinator(Gateways):
    """The coordinator of one group, wherever it is."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__(bootstrap)
        self.group = group

    @property
    def name(self) -> str:
        return f"coordinator of group {self.group}"

    @property
    def address(self) -> str:
        """``HOST:PORT``; empty while unknown."""
        return host_port(*self._connection.address) if self._connection else ""

    def _connect(self, each_s: float) -> Connection:
        with contextlib.closing(super()._connect(min(each_s, _FIND_S))) as connection:
            body = {"key_type": 0, "coordinator_keys": [self.group]}
            (found,) = connection.request(FIND_COORDINATOR, _FIND_COORDINATOR_VERSION, body).coordinators
        if found.error_code is not ErrorCode.none:
            raise ConnectionError(f"FindCoordinator: {found.error_code.name.upper()}")
        return Connection(found.host, found.port, each_s)


def addresses(bootstrap: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of each. Raises CliError."""
    for part in filter(None, (text.strip() for text in bootstrap.split(","))):
        host, _, port = part.rpartition("://")[2].rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
            raise CliError(f"{part} is not HOST:PORT")
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

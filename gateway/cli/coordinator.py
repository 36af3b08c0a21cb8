"""Requests to a gateway or a group's coordinator over a socket of our own: those that confluent-kafka has no call
for."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import SIZE_BYTES, framed
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.kafka import TIMEOUT_S
from muster.gateway.cli.login import current_security
from muster.gateway.security.mechanism_names import PLAIN
from muster.placement.host_port import host_port

if TYPE_CHECKING:
    from muster.gateway.cli.command_config import Login

FIND_COORDINATOR = 10
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_FIND_COORDINATOR_VERSION = 4
_CLIENT_ID = "muster-cli"
_CONNECT_S = 5.0
_PAUSE_S = 0.1
_MAX_RESPONSE_BYTES = 1 << 30
_RETRIABLE = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.request_timed_out,
}


class _Connection:
    """Connection with one request at a time. Raises OSError if it is lost, or the peer does not speak Kafka's
    protocol."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=_CONNECT_S)
        self._socket.settimeout(TIMEOUT_S)
        self._correlation_id = 0
        security = current_security()
        try:
            if security is not None and security.uses_tls:
                self._socket = security.tls.context().wrap_socket(self._socket, server_hostname=host)
            if security is not None and security.login is not None:
                self._log_in(security.login)
        except BaseException:
            self.close()
            raise

    def request(self, api_key: int, version: int, body: dict[str, Any]) -> Any:
        self._correlation_id += 1
        self._socket.sendall(framed(codec.encode_request(api_key, version, self._correlation_id, _CLIENT_ID, body)))
        size_bytes = int.from_bytes(self._exactly(SIZE_BYTES), "big", signed=True)
        if not 0 <= size_bytes <= _MAX_RESPONSE_BYTES:
            raise ConnectionError("it does not speak Kafka's protocol")
        frame = self._exactly(size_bytes)
        try:
            correlation_id, response = codec.decode_response(api_key, version, frame)
        except Exception as error:  # whatever kio raises for bytes that are no response
            raise ConnectionError(f"it does not speak Kafka's protocol: {type(error).__name__}") from error
        if correlation_id != self._correlation_id:
            raise ConnectionError("it responded to a request that was not sent")
        return response

    def _log_in(self, login: Login) -> None:
        """Log in. Raises CliError if the gateway refuses it."""
        shaken = self.request(_SASL_HANDSHAKE, 1, {"mechanism": login.mechanism})
        if shaken.error_code is not ErrorCode.none:
            raise CliError(f"the gateway does not take {login.mechanism}: {shaken.error_code.name.upper()}")
        if login.mechanism == PLAIN:
            self._send_token("\0".join(("", login.user, login.password)))
            return
        from scramp import ScramClient, ScramException  # it takes long, and few clusters have logins

        scram = ScramClient([login.mechanism], login.user, login.password)
        try:
            scram.set_server_first(self._send_token(scram.get_client_first()))
            scram.set_server_final(self._send_token(scram.get_client_final()))
        except (ScramException, ValueError) as error:  # of a number that is none
            raise CliError(f"the login failed: {error}") from error

    def _send_token(self, token: str) -> str:
        response = self.request(_SASL_AUTHENTICATE, 2, {"auth_bytes": token.encode()})
        if response.error_code is not ErrorCode.none:
            raise CliError(f"the gateway refuses the login: {response.error_message}")
        return str(response.auth_bytes, "utf-8")

    def _exactly(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            part = self._socket.recv(min(size_bytes - len(data), 1 << 20))
            if not part:
                raise ConnectionError("it closed the connection")
            data += part
        return bytes(data)

    def close(self) -> None:
        self._socket.close()


class Gateway:
    """One gateway. Use it in a ``with`` block."""

    def __init__(self, host: str, port: int) -> None:
        self._known: tuple[str, int] | None = (host, port)
        self._connection: _Connection | None = None

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"gateway at {self.address}"

    @property
    def address(self) -> str:
        """``HOST:PORT``; empty while unknown."""
        return host_port(*self._known) if self._known else ""

    def request(self, api_key: int, version: int, body: dict[str, Any]) -> Any:
        """Return the response, as kio's entity; retry while a coordinator moves, loads or is unavailable.

        So the request must be safe to repeat. Raises CliError without a timely response.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                response = self._connected().request(api_key, version, body)
                failure = next((error.name.upper() for error in errors_in(response) if error in _RETRIABLE), None)
                if failure is None:
                    return response
            except OSError as error:
                failure = str(error)
            self.close()
            if time.monotonic() > deadline:
                raise CliError(f"the {self.name} does not respond ({failure}); see muster status")
            time.sleep(_PAUSE_S)

    def _connected(self) -> _Connection:
        if self._connection is None:
            self._known = self._find()
            self._connection = _Connection(*self._known)
        return self._connection

    def _find(self) -> tuple[str, int]:
        """Return the address to connect to now. Raises OSError."""
        if self._known is None:
            raise ConnectionError("no address")
        return self._known

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Coordinator(Gateway):
    """The coordinator of one group, wherever it is."""

    def __init__(self, bootstrap: str, group: str) -> None:
        """Take ``bootstrap``, a list as Kafka clients have it. Raises CliError if it is invalid."""
        self.group = group
        self._bootstrap = tuple(addresses(bootstrap))
        self._known = None
        self._connection = None

    @property
    def name(self) -> str:
        return f"coordinator of group {self.group}"

    def _find(self) -> tuple[str, int]:
        failure: OSError | None = None
        for host, port in self._bootstrap:
            try:
                with contextlib.closing(_Connection(host, port)) as connection:
                    body = {"key_type": 0, "coordinator_keys": [self.group]}
                    (found,) = connection.request(FIND_COORDINATOR, _FIND_COORDINATOR_VERSION, body).coordinators
            except OSError as error:
                failure = error
                continue
            if found.error_code is ErrorCode.none:
                return found.host, found.port
            failure = ConnectionError(f"FindCoordinator: {found.error_code.name.upper()}")
        raise failure or ConnectionError("no address")


def addresses(bootstrap: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of each. Raises CliError."""
    for part in filter(None, (text.strip() for text in bootstrap.split(","))):
        host, _, port = part.rpartition("://")[2].rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
            raise CliError(f"{part} is not HOST:PORT")
        yield host.strip("[]"), int(port)


def errors_in(entity: Any) -> Iterator[ErrorCode]:
    """Yield every error code anywhere in a response."""
    for declared in dataclasses.fields(entity):
        value = getattr(entity, declared.name)
        if isinstance(value, ErrorCode):
            if value is not ErrorCode.none:
                yield value
        elif isinstance(value, tuple):
            for item in value:
                if dataclasses.is_dataclass(item):
                    yield from errors_in(item)

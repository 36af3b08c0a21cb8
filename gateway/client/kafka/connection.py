"""One connection to a broker, with a login and TLS."""

from __future__ import annotations

import socket
from collections import deque
from typing import TYPE_CHECKING, Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import SIZE_BYTES, framed
from muster.gateway.client.errors import LoginFailed
from muster.gateway.security.mechanism_names import PLAIN

if TYPE_CHECKING:
    from muster.gateway.client.security import Login, Security

RESPONSE_S = 15.0
"""Limit of any one response."""
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_CONNECT_S = 5.0
_MAX_RESPONSE_BYTES = 1 << 30


class Connection:
    """Connection of one client. Raises OSError if it is lost, or the peer does not speak Kafka's protocol."""

    def __init__(
        self, host: str, port: int, timeout_s: float, client_id: str, security: Security | None = None
    ) -> None:
        """``timeout_s``: of the connection, up to 5 s, and of each response to a login. Raises LoginFailed."""
        self.address = (host, port)
        self._client_id = client_id
        try:
            self._socket = socket.create_connection((host, port), timeout=min(_CONNECT_S, timeout_s))
        except UnicodeError as error:  # a label that is empty or too long
            raise ConnectionError(f"{host} is no name of a host") from error
        self._socket.settimeout(timeout_s)
        self._correlation_id = 0
        self._sent: deque[int] = deque()
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security is not None and security.uses_tls:
                self._socket = security.tls.context().wrap_socket(self._socket, server_hostname=host)
            if security is not None and security.login is not None:
                self._log_in(security.login)
        except BaseException:
            self.close()
            raise

    def request(self, api_key: int, version: int, body: dict[str, Any], timeout_s: float | None = None) -> Any:
        """Return the response. ``timeout_s``: its limit from now on, if it is another than before."""
        if timeout_s is not None:
            self._socket.settimeout(timeout_s)
        self.send(api_key, version, body)
        return self.receive(api_key, version)

    def send(self, api_key: int, version: int, body: dict[str, Any]) -> None:
        """Send a request, whose response ``receive`` returns. One may be sent before the last one's is received."""
        self._correlation_id += 1
        self._socket.sendall(
            framed(codec.encode_request(api_key, version, self._correlation_id, self._client_id, body))
        )
        self._sent.append(self._correlation_id)

    def receive(self, api_key: int, version: int) -> Any:
        """Return the response to the oldest request that has none yet, which was of this API and version."""
        size_bytes = int.from_bytes(self._exactly(SIZE_BYTES), "big", signed=True)
        if not 0 <= size_bytes <= _MAX_RESPONSE_BYTES:
            raise ConnectionError("it does not speak Kafka's protocol")
        frame = self._exactly(size_bytes)
        try:
            correlation_id, response = codec.decode_response(api_key, version, frame)
        except codec.UndecodableResponse as error:
            raise ConnectionError(f"it does not speak Kafka's protocol: {error}") from error
        if correlation_id != self._sent.popleft():
            raise ConnectionError("it responded to a request that was not sent")
        return response

    def _log_in(self, login: Login) -> None:
        """Log in. Raises LoginFailed if the broker refuses it."""
        shaken = self.request(_SASL_HANDSHAKE, 1, {"mechanism": login.mechanism})
        if shaken.error_code is not ErrorCode.none:
            raise LoginFailed(f"the broker does not take {login.mechanism}: {shaken.error_code.name.upper()}")
        if login.mechanism == PLAIN:
            self._send_token("\0".join(("", login.user, login.password)))
            return
        from scramp import ScramClient, ScramException  # it takes long, and few clusters have logins

        scram = ScramClient([login.mechanism], login.user, login.password)
        try:
            scram.set_server_first(self._send_token(scram.get_client_first()))
            scram.set_server_final(self._send_token(scram.get_client_final()))
        except (ScramException, ValueError) as error:  # of a number that is none
            raise LoginFailed(f"the login failed: {error}") from error

    def _send_token(self, token: str) -> str:
        response = self.request(_SASL_AUTHENTICATE, 2, {"auth_bytes": token.encode()})
        if response.error_code is not ErrorCode.none:
            raise LoginFailed(f"the broker refuses the login: {response.error_message}")
        return str(response.auth_bytes, "utf-8")

    def _exactly(self, size_bytes: int) -> bytes:
        data = bytearray(size_bytes)
        left = memoryview(data)
        while left:
            received = self._socket.recv_into(left)
            if not received:
                raise ConnectionError("it closed the connection")
            left = left[received:]
        return bytes(data)

    def close(self) -> None:
        self._socket.close()

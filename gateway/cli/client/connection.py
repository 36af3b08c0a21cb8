"""One connection to a gateway, with the login and TLS of ``--command-config``."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import SIZE_BYTES, framed
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.login import current_security
from muster.gateway.security.mechanism_names import PLAIN

if TYPE_CHECKING:
    from muster.gateway.cli.command_config import Login

RESPONSE_S = 15.0
"""Limit of any one response."""
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_CLIENT_ID = "muster-cli"
_CONNECT_S = 5.0
_MAX_RESPONSE_BYTES = 1 << 30


class Connection:
    """Connection with one request at a time. Raises OSError if it is lost, or the peer does not speak Kafka's
    protocol."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        """``timeout_s``: of the connection, up to 5 s, and of each response to a login."""
        self.address = (host, port)
        try:
            self._socket = socket.create_connection((host, port), timeout=min(_CONNECT_S, timeout_s))
        except UnicodeError as error:  # a label that is empty or too long
            raise ConnectionError(f"{host} is no name of a host") from error
        self._socket.settimeout(timeout_s)
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

    def request(self, api_key: int, version: int, body: dict[str, Any], timeout_s: float | None = None) -> Any:
        """Return the response. ``timeout_s``: its limit from now on, if it is another than before."""
        if timeout_s is not None:
            self._socket.settimeout(timeout_s)
        self._correlation_id += 1
        self._socket.sendall(framed(codec.encode_request(api_key, version, self._correlation_id, _CLIENT_ID, body)))
        size_bytes = int.from_bytes(self._exactly(SIZE_BYTES), "big", signed=True)
        if not 0 <= size_bytes <= _MAX_RESPONSE_BYTES:
            raise ConnectionError("it does not speak Kafka's protocol")
        frame = self._exactly(size_bytes)
        try:
            correlation_id, response = codec.decode_response(api_key, version, frame)
        except codec.UndecodableResponse as error:
            raise ConnectionError(f"it does not speak Kafka's protocol: {error}") from error
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

"""The server's side of the SASL mechanisms, token by token, with Kafka's messages for failures."""

from __future__ import annotations

from typing import Protocol

from scramp import ScramException, ScramMechanism

from muster.gateway.security.credentials import SCRAM_MECHANISMS, Credentials

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *SCRAM_MECHANISMS)


class AuthenticationFailed(Exception):
    """The text is Kafka's own, and is sent to the client."""


class Exchange(Protocol):
    """One login."""

    user: str | None
    """The user, once proven."""

    def respond(self, token: bytes) -> bytes:
        """The server's next token; may take milliseconds. Raises AuthenticationFailed."""
        ...


class PlainExchange:
    """RFC 4616: authorization id, user and password in one token, each before a NUL."""

    def __init__(self, credentials: Credentials) -> None:
        self.user: str | None = None
        self._credentials = credentials

    def respond(self, token: bytes) -> bytes:
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise _invalid(PLAIN) from None
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise _invalid(PLAIN)
        authorization_id, user, password = parts
        if not self._credentials.is_password(user, password):
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""


class ScramExchange:
    """RFC 5802 without channel binding: client first, server first, client final, server final."""

    def __init__(self, mechanism: str, credentials: Credentials) -> None:
        self.user: str | None = None
        self._mechanism = mechanism
        self._credentials = credentials
        self._name: str | None = None
        self._server = ScramMechanism(mechanism).make_server(self._look_up)

    def respond(self, token: bytes) -> bytes:
        try:
            message = token.decode()
            if self._name is None:
                self._server.set_client_first(message)
                return str(self._server.get_server_first()).encode()
            self._server.set_client_final(message)
            final = str(self._server.get_server_final()).encode()
        except (ScramException, UnicodeDecodeError):
            raise _invalid(self._mechanism) from None
        self.user = self._name
        return final

    def _look_up(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        self._name = user
        held = self._credentials.scram(user, self._mechanism)
        return held.salt, held.stored_key, held.server_key, held.iterations


def exchange(mechanism: str, credentials: Credentials) -> Exchange:
    """Begin a login with one of MECHANISMS."""
    if mechanism == PLAIN:
        return PlainExchange(credentials)
    return ScramExchange(mechanism, credentials)


def _invalid(mechanism: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )

"""The server's side of the SASL mechanisms, token by token, with Kafka's messages for failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from muster.gateway.security.credentials import Credentials
from muster.gateway.security.scram import ClientFirst, ScramError, ServerExchange

T = TypeVar("T")

MAX_TOKEN_BYTES = 4096
"""Largest token of PLAIN and SCRAM."""
_OTHER_IDENTITY = "Authentication failed: Client requested an authorization id that is different from username"


class InTurn(Protocol):
    """Runs work that takes processor time, outside the event loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Its result. Raises TooBusy."""


class AuthenticationFailed(Exception):
    """The text is Kafka's own, and is sent to the client; ``reason`` is for the log alone."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason


class InvalidCredentials(Exception):
    """Invalid message of the client, which learns no more than that."""


@dataclass(frozen=True, slots=True)
class Login:
    """Result of a login: the proven user."""

    user: str
    expires_ms: int | None = None
    """When the credential itself ends, in ms since the Unix epoch; None: never."""


class Exchange(Protocol):
    """One login."""

    login: Login | None
    """Once it is proven."""

    async def respond(self, token: bytes) -> bytes:
        """Return the server's next token. Raises AuthenticationFailed or InvalidCredentials."""
        ...


class PlainExchange:
    """RFC 4616: authorization id, user and password in one token, each before a NUL."""

    def __init__(self, credentials: Credentials, in_turn: InTurn) -> None:
        self.login: Login | None = None
        self._credentials = credentials
        self._in_turn = in_turn

    async def respond(self, token: bytes) -> bytes:
        _check_size(token)
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise InvalidCredentials from None
        if len(parts) != 3:
            raise InvalidCredentials
        authorization_id, user, password = parts
        for name, part in (("username", user), ("password", password)):
            if not part:
                raise AuthenticationFailed(f"Authentication failed: {name} not specified")
        if not await self._in_turn(lambda: self._credentials.is_password(user, password)):
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise AuthenticationFailed(_OTHER_IDENTITY)
        self.login = Login(user)
        return b""


class ScramExchange:
    """RFC 5802 without channel binding: client first, server first, client final, server final."""

    def __init__(self, mechanism: str, credentials: Credentials) -> None:
        self.login: Login | None = None
        self._mechanism = mechanism
        self._credentials = credentials
        self._name = ""
        self._server: ServerExchange | None = None

    async def respond(self, token: bytes) -> bytes:
        _check_size(token)
        try:
            if self._server is None:
                return self._begin(ClientFirst.decode(token))
            final = self._server.server_final(token)
        except ScramError as error:
            raise InvalidCredentials(str(error)) from None
        self.login = Login(self._name)
        return final

    def _begin(self, first: ClientFirst) -> bytes:
        if first.authorization_id not in ("", first.name):
            raise AuthenticationFailed(_OTHER_IDENTITY)
        if first.is_token_login:
            raise InvalidCredentials("delegation tokens do not exist")
        self._name = first.name
        self._server = ServerExchange(self._mechanism, first, self._credentials.scram(first.name, self._mechanism))
        return self._server.server_first.encode()


def _check_size(token: bytes) -> None:
    if len(token) > MAX_TOKEN_BYTES:
        raise AuthenticationFailed(f"Authentication failed: a token of {len(token)} bytes")

"""SASL on one connection (KIP-43, KIP-152, KIP-368): which requests are allowed when, and which user the client is.

SaslHandshake names the mechanism; the tokens come in SaslAuthenticate, or after a SaslHandshake v0 as bare frames. A
SaslHandshake in a session with a lifetime begins to authenticate again: the same mechanism and the same user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from muster.gateway.security.counts import LoginCounts
from muster.gateway.security.mechanisms import AuthenticationFailed, Exchange, InvalidCredentials, Login

SASL_HANDSHAKE, SASL_AUTHENTICATE, API_VERSIONS = 17, 36, 18
MIN_REAUTH_INTERVAL_S = 1.0
"""Kafka's KafkaChannel: a client that begins again earlier gets ILLEGAL_SASL_STATE."""


class State(Enum):
    """How far the client is."""

    START = auto()
    VERSIONS = auto()
    """ApiVersions was served; only SaslHandshake may follow."""
    HANDSHAKE = auto()
    """A SaslHandshake is being served; if a fault answers it, the next one is."""
    TOKENS = auto()
    COMPLETE = auto()


@dataclass(frozen=True, slots=True)
class SaslRules:
    """Rules for logins of one listener."""

    mechanisms: tuple[str, ...]
    max_reauth_ms: Mapping[str, int]
    """Lifetime of a session by mechanism, in ms; 0: no end (connections.max.reauth.ms)."""


class Logins(Protocol):
    """Logins, shared by sessions (:class:`muster.gateway.security.sasl.Sasl`)."""

    counts: LoginCounts
    failure_delay_s: float

    def wall_ms(self) -> int:
        """Return the clock of credentials that end, ms since the Unix epoch."""

    async def exchange(self, mechanism: str, host: str) -> Exchange:
        """Begin a login from that host."""


class SaslSession:
    """The session of one connection, which serves one request at a time until it ``is_complete``."""

    def __init__(self, sasl: Logins, rules: SaslRules, listener: str, now_s: Callable[[], float]) -> None:
        """``now_s``: the clock of lifetimes, monotonic."""
        self.mechanism: str | None = None
        self.takes_bare_tokens = False
        """After a SaslHandshake v0, the next frames are tokens without a request header."""
        self.user: str | None = None
        self.lifetime_ms = 0
        """Lifetime of the session, from the last login; 0: no end."""
        self._sasl = sasl
        self._rules = rules
        self._listener = listener
        self._now_s = now_s
        self._state = State.START
        self._exchange: Exchange | None = None
        self._expires_s: float | None = None
        self._began_s: float | None = None
        """When the current, or else the last, attempt to authenticate again began; None before the first."""
        self._other: str | None = None
        """The mechanism with which the client wants to authenticate again, if it is another one."""
        self._knows_lifetimes = False

    @property
    def is_complete(self) -> bool:
        """Whether the client is authenticated, and does not just authenticate again."""
        return self._state is State.COMPLETE

    @property
    def is_served(self) -> bool:
        """Whether all requests are served now."""
        return self._state is State.COMPLETE and (self._expires_s is None or self._now_s() <= self._expires_s)

    def count_expired(self) -> None:
        """Count that the connection is closed because the lifetime is over."""
        self._sasl.counts.expired(self._listener)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._rules.mechanisms

    def admits(self, api_key: int, *, is_served: bool) -> bool:
        """Whether that request is allowed now, which it then changes. ``is_served``: its version exists here."""
        match self._state:
            case State.COMPLETE:
                if api_key == SASL_HANDSHAKE and self._may_begin_again():
                    self._began_s, self._state = self._now_s(), State.HANDSHAKE
                    return True
                return self.is_served
            case State.START if api_key == API_VERSIONS:
                if is_served:
                    self._state = State.VERSIONS
                return True
            case State.START | State.VERSIONS | State.HANDSHAKE:
                if api_key == SASL_HANDSHAKE:
                    self._state = State.HANDSHAKE
                return api_key == SASL_HANDSHAKE
            case State.TOKENS:
                return api_key == SASL_AUTHENTICATE

    def _may_begin_again(self) -> bool:
        """Return whether a login may begin again: as in Kafka, in a session with a lifetime, once a second at most."""
        if self._expires_s is None:
            return False
        return self._began_s is None or self._now_s() - self._began_s >= MIN_REAUTH_INTERVAL_S

    @property
    def takes_handshake(self) -> bool:
        """Whether the SaslHandshake that is served begins a login; otherwise it is an illegal state."""
        return self._state is State.HANDSHAKE

    @property
    def takes_tokens(self) -> bool:
        """Whether a mechanism was begun. Not yet for a token that the client sent ahead of its next SaslHandshake."""
        return self._exchange is not None

    async def begin(self, mechanism: str, host: str, *, bare_tokens: bool) -> bool:
        """Begin with the client's mechanism. False, after the delay of failures, if it is not enabled."""
        if mechanism not in self.mechanisms:
            self._sasl.counts.failed(self._listener, again=self.user is not None)
            await asyncio.sleep(self._sasl.failure_delay_s)
            return False
        if self.user is None:
            self.mechanism = mechanism
        self._other = mechanism if mechanism != self.mechanism else None
        self._exchange = await self._sasl.exchange(mechanism, host)
        self.takes_bare_tokens = bare_tokens
        self._state = State.TOKENS
        return True

    async def respond(self, token: bytes, *, knows_lifetimes: bool) -> bytes:
        """Return the server's next token.

        Raises AuthenticationFailed, after a delay, or TooBusy; both end the connection. ``knows_lifetimes``: whether
        the client gets the session's lifetime in the response.
        """
        running = self._exchange
        assert running is not None
        self._knows_lifetimes = knows_lifetimes
        try:
            response = await self._respond(running, token)
            if running.login is not None:
                self._complete(running.login)
        except AuthenticationFailed:
            self._sasl.counts.failed(self._listener, again=self.user is not None)
            await asyncio.sleep(self._sasl.failure_delay_s)
            raise
        return response

    async def _respond(self, running: Exchange, token: bytes) -> bytes:
        if self._other is not None:
            raise AuthenticationFailed(
                f"SASL mechanism '{self._other}' requested by client is not supported for re-authentication of "
                f"mechanism '{self.mechanism}'"
            )
        try:
            return await running.respond(token)
        except InvalidCredentials as error:
            during = "authentication" if self.user is None else "re-authentication"
            raise AuthenticationFailed(
                f"Authentication failed during {during} due to invalid credentials with SASL mechanism "
                f"{self.mechanism}",
                str(error),
            ) from None

    def _complete(self, login: Login) -> None:
        """Begin the session, or continue it, with the shorter of the two lifetimes; what has ended has none left."""
        again = self.user is not None
        if again and login.user != self.user:
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from User.{self.user}: User.{login.user}"
            )
        lifetimes = [] if login.expires_ms is None else [max(0, login.expires_ms - self._sasl.wall_ms())]
        lifetimes += filter(None, [self._rules.max_reauth_ms.get(str(self.mechanism), 0)])
        self.lifetime_ms = min(lifetimes, default=0)
        self._expires_s = self._now_s() + self.lifetime_ms / 1000 if lifetimes else None
        self.user = login.user
        self._exchange = None
        self.takes_bare_tokens = False
        self._state = State.COMPLETE
        if again and self._began_s is not None:
            self._sasl.counts.again(self._listener, self._now_s() - self._began_s)
        else:
            self._sasl.counts.succeeded(self._listener, knows_lifetimes=self._knows_lifetimes)

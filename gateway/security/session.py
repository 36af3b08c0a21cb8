"""SASL on one connection (KIP-43, KIP-152): which requests are allowed when, and which user the client is.

SaslHandshake names the mechanism; the tokens come in SaslAuthenticate, or after a SaslHandshake v0 as bare frames.
A session has no lifetime (KIP-368), so clients never reauthenticate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from muster.actors.config import MusterConfig
from muster.gateway.security.credentials import CredentialsFile
from muster.gateway.security.mechanisms import AuthenticationFailed, Exchange, exchange

SASL_HANDSHAKE, SASL_AUTHENTICATE, API_VERSIONS = 17, 36, 18
MAX_FRAME_BYTES = 524_288
"""The longest frame before authentication: Kafka's default of sasl.server.max.receive.size."""
MAX_TOKEN_BYTES = 4096
FAILURE_DELAY_S = 0.1
"""How long the response to a failed login is delayed: Kafka's default of connection.failed.authentication.delay.ms."""
_THREADS = 2
T = TypeVar("T")


class Sasl:
    """Shared by all connections of a gateway: the mechanisms, the users, and threads for hashing."""

    def __init__(self, mechanisms: tuple[str, ...], credentials: CredentialsFile) -> None:
        self.mechanisms = mechanisms
        self.credentials = credentials
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sasl")

    @classmethod
    def of(cls, config: MusterConfig) -> Sasl | None:
        """None if clients need not authenticate. Raises CredentialsError."""
        if not config.sasl_mechanisms or config.sasl_credentials_file is None:
            return None
        return cls(config.sasl_mechanisms, CredentialsFile(Path(config.sasl_credentials_file)))

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)


class SaslSession:
    """The session of one connection, which serves one request at a time until it ``is_complete``."""

    def __init__(self, sasl: Sasl) -> None:
        self.mechanism: str | None = None
        self.takes_bare_tokens = False
        """After a SaslHandshake v0, the next frames are tokens without a request header."""
        self.user: str | None = None
        self._sasl = sasl
        self._exchange: Exchange | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the client is authenticated."""
        return self.user is not None

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._sasl.mechanisms

    def admits(self, api_key: int) -> bool:
        """Whether that API is allowed now."""
        if self.is_complete or api_key == API_VERSIONS:
            return True
        return api_key == (SASL_HANDSHAKE if self._exchange is None else SASL_AUTHENTICATE)

    async def begin(self, mechanism: str, *, bare_tokens: bool) -> bool:
        """Begin with the client's mechanism. False if it is not enabled."""
        if mechanism not in self.mechanisms:
            return False
        current = await self._in_thread(self._sasl.credentials.current)
        self._exchange = exchange(mechanism, current)
        self.mechanism = mechanism
        self.takes_bare_tokens = bare_tokens
        return True

    async def respond(self, token: bytes) -> bytes:
        """The server's next token. AuthenticationFailed ends the session."""
        running = self._exchange
        assert running is not None
        if len(token) > MAX_TOKEN_BYTES:
            raise AuthenticationFailed(f"Authentication failed: a token of {len(token)} bytes")
        try:
            response = await self._in_thread(lambda: running.respond(token))
        except AuthenticationFailed:
            await asyncio.sleep(FAILURE_DELAY_S)
            raise
        self.user = running.user
        if self.is_complete:
            self.takes_bare_tokens = False
        return response

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._sasl.threads, work)

"""SASL of a gateway: its mechanisms, its users, and the threads for what takes processor time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

from muster.actors.config import Listener, MusterConfig
from muster.actors.runtime.process import wall_ms
from muster.gateway.security.counts import LoginCounts
from muster.gateway.security.credentials import Credentials, Entities, Users, read, stored_credentials
from muster.gateway.security.files import WatchedFile
from muster.gateway.security.mechanism_names import OAUTHBEARER, PLAIN
from muster.gateway.security.mechanisms import Exchange, PlainExchange, ScramExchange
from muster.gateway.security.oauth.exchange import OAuthExchange, TokenRules
from muster.gateway.security.oauth.jwks import Jwks
from muster.gateway.security.session import SaslRules, SaslSession
from muster.gateway.security.turns import Turns

log = logging.getLogger(__name__)

_NO_USERS: Users = MappingProxyType({})


class Sasl:
    """Shared by all connections of a gateway, on its event loop."""

    def __init__(self, config: MusterConfig, file: WatchedFile[Users] | None) -> None:
        self.counts = LoginCounts()
        self.max_frame_bytes = config.sasl_server_max_receive_size
        """The longest frame of a client that is not authenticated."""
        self.failure_delay_s = config.connection_failed_authentication_delay_ms / 1000
        """How long the response to a failed login, and the end of its connection, are delayed."""
        self.turns = Turns()
        self.now_s: Callable[[], float] = time.monotonic
        """The clock of sessions' lifetimes."""
        self._config = config
        self._file = file
        url = config.sasl_oauthbearer_jwks_endpoint_url
        refresh_s = config.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000
        authorities = config.sasl_oauthbearer_jwks_endpoint_ssl_truststore_location
        self._jwks = None if url is None else Jwks(url, refresh_s, authorities=authorities)
        self._token_rules = TokenRules(
            audience=config.oauth_audience,
            issuer=config.sasl_oauthbearer_expected_issuer,
            clock_skew_s=config.sasl_oauthbearer_clock_skew_seconds,
            sub_claim=config.sasl_oauthbearer_sub_claim_name,
        )
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="users")
        """Apart from hashing: a login must not wait for those of others to find its user."""
        self._entities: Entities = {}
        self._secret = b""
        self._credentials = Credentials({})
        self._of: tuple[Users, Entities] | None = None

    @classmethod
    def of(cls, config: MusterConfig) -> Sasl | None:
        """None if clients need not authenticate. Raises PropertyFileError."""
        if not any(listener.needs_login for listener in config.all_listeners):
            return None
        path = config.sasl_credentials_file
        return cls(config, None if path is None else WatchedFile(Path(path), read, "users"))

    def wall_ms(self) -> int:
        """See :class:`muster.gateway.security.session.Logins`."""
        return wall_ms()

    def follow(self, entities: Entities, secret: bytes) -> None:
        """Use these users of ZooKeeper for the next logins. ``secret``: see :class:`Credentials`."""
        if entities != self._entities or secret != self._secret:  # each view has copies
            self._entities, self._secret = entities, secret

    def sources(self) -> str:
        """Where users are, and how many, for a log line."""
        stored = sum(bool(stored_credentials(config)) for config in self._entities.values())
        text = f"{stored} users in ZooKeeper"
        if self._file is not None:
            path = self._config.sasl_credentials_file
            text += f", {len(self._file.current())} in {path}; one in both is the one in ZooKeeper"
        return text

    def session(self, listener: Listener) -> SaslSession:
        """Return the session of a new connection."""
        return SaslSession(self, rules_of(self._config, listener), listener.name, self.now_s)

    async def exchange(self, mechanism: str, host: str) -> Exchange:
        """See :class:`muster.gateway.security.session.Logins`."""
        if self._jwks is not None and mechanism == OAUTHBEARER:
            return OAuthExchange(self._jwks, self._token_rules, self.turns.of(host))
        credentials = await self._current()
        if mechanism == PLAIN:
            return PlainExchange(credentials, self.turns.of(host))
        return ScramExchange(mechanism, credentials)

    async def is_password(self, user: str, password: str, host: str) -> bool:
        """Whether the user has that password, as PLAIN checks it. Raises TooBusy."""
        credentials = await self._current()
        return await self.turns.run(host, lambda: credentials.is_password(user, password))

    async def _current(self) -> Credentials:
        """Return the current users of both sources."""
        users = _NO_USERS
        if self._file is not None:
            users = await asyncio.get_running_loop().run_in_executor(self._looking, self._file.current)
        of = (users, self._entities)
        if self._of is None or self._of[0] is not of[0] or self._of[1] is not of[1]:
            self._of, self._credentials = of, Credentials(users, self._entities, self._secret)
        return self._credentials

    def close(self) -> None:
        self.turns.close()
        if self._jwks is not None:
            self._jwks.close()
        self._looking.shutdown(wait=False, cancel_futures=True)


def rules_of(config: MusterConfig, listener: Listener) -> SaslRules:
    """Return the rules for logins of that listener."""
    named: str = config.of_listener(listener.name, "sasl.enabled.mechanisms")
    mechanisms = tuple(filter(None, named.split(",")))
    lifetimes_ms = {
        mechanism: int(config.of_listener(listener.name, "connections.max.reauth.ms", mechanism))
        for mechanism in mechanisms
    }
    return SaslRules(mechanisms, lifetimes_ms)

"""State that the pages of one process share: the gateways, the sessions, the pollers."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from fastapi import Request

from muster.gateway.console.api import UNAUTHORIZED, Api, ApiError, Gateways
from muster.gateway.console.login import COOKIE, Session, Sessions, basic, bearer
from muster.gateway.console.model import groups
from muster.gateway.console.model.snapshot import GroupRow
from muster.gateway.console.watch import Watch, Watches

STATIC = Path(__file__).parent / "static"


class ConsoleServer:
    """Sessions and pollers of one process."""

    def __init__(self, gateways: Gateways, tls: ssl.SSLContext | None = None) -> None:
        self.gateways = gateways
        self.sessions = Sessions()
        self.watches = Watches(self._api)
        self.version = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(STATIC.iterdir()))).hexdigest()[:12]
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._chosen: dict[tuple[int, groups.Choice], tuple[int, list[GroupRow]]] = {}

    def _api(self, authorization: str | None) -> Api:
        assert self._session is not None
        return Api(self.gateways, self._session, authorization)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the connections to the gateways open."""
        connector = aiohttp.TCPConnector(limit_per_host=8, ssl=self._tls if self._tls is not None else True)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as self._session:
            try:
                yield
            finally:
                await self.watches.close()

    def viewer(self, request: Request) -> tuple[str, Session | None, Watch]:
        """Return the id of the request's session, the session, and the watch for its credentials."""
        session = self.sessions.of(request)
        authorization = None if session is None else session.authorization
        return request.cookies.get(COOKIE, ""), session, self.watches.of(authorization)

    def chosen(self, watch: Watch, choice: groups.Choice, rates: Mapping[str, float]) -> list[GroupRow]:
        """Return the groups of the choice; sorted once for each round, whatever the number of pages and viewers."""
        key, found = (id(watch), choice), self._chosen.get((id(watch), choice))
        if found is None or found[0] != watch.rounds:
            if len(self._chosen) > 100:
                self._chosen.clear()
            found = self._chosen[key] = (watch.rounds, groups.chosen(watch.now.groups, choice, rates))
        return found[1]

    async def log_in(self, user: str, password: str, token: str) -> str:
        """Return the id of a new session. Raises MusterError or ValueError if the credentials are not good."""
        authorization = bearer(token.strip()) if token.strip() else basic(user, password)
        try:
            await self._api(authorization).get("/v1/groups/lag", limit=1)
        except ApiError as error:
            if error.status == UNAUTHORIZED or error.status >= 500:
                raise
        return self.sessions.open(authorization, user or "token")

"""Requests to the HTTP API of a cluster's gateways, with one viewer's credentials.

A gateway that does not respond is left for the next one; which ones failed, and why, is in :attr:`Api.failed`. What a
gateway may have done is not repeated on another one.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from muster.gateway.client.errors import MusterError

TIMEOUT_S = 10.0
CONNECT_S = 2.0
RETRY_S = 5.0
"""A gateway that failed is tried again after this time, before the others if it was the first."""
MAX_RESPONSE_BYTES = 64 << 20
_TOPICS = 1_000
"""Topics in a request: the API's largest page."""
UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 401, 403, 404


class ApiError(MusterError):
    """Raised if a gateway responds with an error; ``status`` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class NoGateway(MusterError):
    """Raised if no gateway responds."""


class MissingRoute(ApiError):
    """Raised if the gateway does not have the route."""

    def __init__(self, path: str) -> None:
        super().__init__(NOT_FOUND, f"this gateway does not serve {path}")
        self.path = path


def base_of(url: str) -> str:
    """Return a gateway's URL without the path of a request."""
    return url.strip().rstrip("/").removesuffix("/metrics")


class Gateways:
    """URLs of the cluster's gateways: those that were given, and those that the cluster names."""

    def __init__(self, urls: Iterable[str]) -> None:
        self.given = tuple(dict.fromkeys(base for url in urls if (base := base_of(url))))
        self._found: tuple[str, ...] = ()

    def found(self, urls: Iterable[str | None]) -> None:
        """Take the current gateways of the cluster."""
        self._found = tuple(dict.fromkeys(base_of(url) for url in urls if url))

    @property
    def urls(self) -> tuple[str, ...]:
        """All of them, the given ones first."""
        return tuple(dict.fromkeys((*self.given, *self._found)))

    @property
    def current(self) -> tuple[str, ...]:
        """URLs that the cluster names; the given ones as long as none is known."""
        return self._found or self.given


class Api:
    """The HTTP API, as one viewer. ``authorization``: the header's value; None: anonymous."""

    def __init__(self, gateways: Gateways, session: aiohttp.ClientSession, authorization: str | None = None) -> None:
        self.gateways = gateways
        self.failed: dict[str, str] = {}
        self._failed_s: dict[str, float] = {}
        self._session = session
        self._headers = {} if authorization is None else {"Authorization": authorization}
        self.has_login = authorization is not None
        self.gateway = gateways.urls[0] if gateways.urls else ""
        """The one that responded last."""

    async def get(self, path: str, **query: Any) -> dict[str, Any]:
        """GET the path. Raises ApiError, MissingRoute or NoGateway."""
        parameters = {name: str(value) for name, value in query.items() if value is not None}
        return await self._first("GET", path, parameters, None, may_repeat=True)

    async def topics(self) -> dict[str, Any]:
        """Return all topics, as ``/v1/topics`` gives them a page at a time. Raises like :meth:`get`."""
        rows: list[Any] = []
        is_partial = False
        while True:
            found = await self.get("/v1/topics", limit=_TOPICS, offset=len(rows))
            rows += found["topics"]
            is_partial = is_partial or found["partial"]
            if not found["topics"] or len(rows) >= found["total"]:
                return {"topics": rows, "partial": is_partial}

    async def text(self, path: str) -> str:
        """GET a text from the gateway that responded last. Raises ApiError, MissingRoute or NoGateway."""
        async with self.lines("GET", path) as lines:
            return "\n".join([line async for line in lines])

    async def get_from(self, url: str, path: str) -> dict[str, Any]:
        """GET the path from one gateway. Raises ApiError, MissingRoute or NoGateway."""
        try:
            return await self._call(url, "GET", path, {}, None)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoGateway(f"{url} does not respond: {_why(error)}") from error

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST the body as JSON. Raises ApiError, MissingRoute or NoGateway: it may have been done."""
        return await self._first("POST", path, {}, body, may_repeat=False)

    async def delete(self, path: str) -> dict[str, Any]:
        """DELETE the path. Raises like :meth:`post`."""
        return await self._first("DELETE", path, {}, None, may_repeat=False)

    async def _first(
        self, method: str, path: str, query: Mapping[str, str], body: Any, *, may_repeat: bool
    ) -> dict[str, Any]:
        failures = []
        for url in self._in_order():
            try:
                found = await self._call(url, method, path, query, body)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                self._fails(url, _why(error))
                failures.append(f"{url} ({_why(error)})")
                if not may_repeat and not isinstance(error, aiohttp.ClientConnectorError):
                    raise NoGateway(f"{url} did not respond, and may have done it: {_why(error)}") from error
                continue
            except ApiError as error:
                self._works(url)
                if error.status == 503 and may_repeat and len(self.gateways.urls) > len(failures) + 1:
                    failures.append(f"{url} ({error})")
                    last = error
                    if len(failures) < 2:
                        continue
                    raise last from None
                raise
            self._works(url)
            return found
        raise NoGateway(f"no gateway responds: {'; '.join(failures) or 'none is known'}")

    def _in_order(self) -> list[str]:
        """Return the URLs, first the one that responded last; those that just failed come last."""
        now_s = time.monotonic()
        urls = sorted(self.gateways.urls, key=lambda url: url != self.gateway)
        return sorted(urls, key=lambda url: now_s - self._failed_s.get(url, -RETRY_S) < RETRY_S)

    def _fails(self, url: str, why: str) -> None:
        self.failed[url] = why
        self._failed_s[url] = time.monotonic()

    def _works(self, url: str) -> None:
        self.gateway = url
        self.failed.pop(url, None)
        self._failed_s.pop(url, None)

    async def look_again(self) -> None:
        """Ask the gateways that failed a while ago for a sign of life, so that the viewer sees them come back."""
        now_s = time.monotonic()
        for url in [url for url in self.failed if now_s - self._failed_s.get(url, 0) >= RETRY_S]:
            if url not in self.gateways.urls or (url not in self.gateways.current and self.gateways.current):
                self.failed.pop(url)
                continue
            try:
                async with self._session.get(f"{url}/healthz", timeout=_timeout(CONNECT_S)):
                    self.failed.pop(url, None)
                    self._failed_s.pop(url, None)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                self._fails(url, _why(error))

    async def _call(self, url: str, method: str, path: str, query: Mapping[str, str], body: Any) -> dict[str, Any]:
        async with self._session.request(
            method, f"{url}{path}", params=query, json=body, headers=self._headers, timeout=_timeout(TIMEOUT_S)
        ) as response:
            if response.content_length is not None and response.content_length > MAX_RESPONSE_BYTES:
                raise ApiError(response.status, f"the response of {path} is too large")
            return _checked(path, response.status, await response.read())

    @asynccontextmanager
    async def lines(self, method: str, path: str, body: Any = None, **query: Any) -> AsyncIterator[AsyncIterator[str]]:
        """Open a response that comes line by line, for as long as it is read. Raises like :meth:`post`."""
        url = self._in_order()[0] if self.gateways.urls else ""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=60)
        headers, sent = dict(self._headers), body
        if isinstance(body, str):
            headers["Content-Type"], sent = "application/yaml", None
        parameters = {name: str(value) for name, value in query.items() if value is not None}
        try:
            async with self._session.request(
                method,
                f"{url}{path}",
                params=parameters,
                json=sent,
                data=body.encode() if isinstance(body, str) else None,
                headers=headers,
                timeout=timeout,
            ) as response:
                if response.status >= 400:
                    _checked(path, response.status, await response.read())
                yield _lines(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoGateway(f"{url} does not respond: {_why(error)}") from error

    async def check_plan(self, text: str) -> dict[str, Any]:
        """Check a plan of faults, in YAML or JSON. Raises ApiError with everything that is wrong."""
        url = self._in_order()[0]
        headers = {**self._headers, "Content-Type": "application/yaml"}
        path = "/v1/faults/plan/check"
        try:
            async with self._session.post(
                f"{url}{path}", data=text.encode(), headers=headers, timeout=_timeout(TIMEOUT_S)
            ) as response:
                return _checked(path, response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoGateway(f"{url} does not respond: {_why(error)}") from error


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    async for line in response.content:
        yield line.decode(errors="replace").rstrip("\r\n")


def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_S)


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no response in time"
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or str(error.os_error)
    return str(error) or type(error).__name__


def _checked(path: str, status: int, raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw) if raw else {}
    except ValueError:
        found = None
    if status < 400:
        if not isinstance(found, dict | list):
            raise ApiError(status, f"the response of {path} is not JSON; is this a gateway's HTTP port?")
        return found if isinstance(found, dict) else {"rows": found}
    if status == NOT_FOUND and not (isinstance(found, dict) and "error" in found):
        raise MissingRoute(path)
    text = found.get("error") if isinstance(found, dict) else None
    problems = found.get("problems") if isinstance(found, dict) else None
    raise ApiError(status, "; ".join(map(str, problems)) if problems else str(text or f"{path}: HTTP status {status}"))

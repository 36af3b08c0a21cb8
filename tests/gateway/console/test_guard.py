"""The guard, with requests as a server gives them to it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from muster.gateway.console.guard import CSP, Guard

OURS = {"host": "127.0.0.1:9600"}


async def _inner(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def sent(kind: str, headers: dict[str, str], method: str = "GET", path: str = "/") -> Message:
    """Return the first message of the response."""
    found: list[Message] = []

    async def send(message: Message) -> None:
        found.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {"type": kind, "path": path, "headers": raw, "method": method}
    asyncio.run(Guard(_inner, ["muster.example"])(scope, receive, send))
    return found[0]


def test_every_response_has_the_policy() -> None:
    headers = dict(sent("http", OURS)["headers"])
    assert headers[b"content-security-policy"].decode() == CSP
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"referrer-policy"] == b"same-origin"
    assert headers[b"cache-control"] == b"no-store"


@pytest.mark.parametrize("host", ["127.0.0.1:9600", "[::1]:9600", "localhost", "muster.example:9600", "MUSTER.example"])
def test_own_names_are_served(host: str) -> None:
    assert sent("http", {"host": host})["status"] == 200


@pytest.mark.parametrize("host", ["evil.example", "muster.example.evil.example", "", "127.0.0.1.evil.example"])
def test_other_names_are_refused(host: str) -> None:
    assert sent("http", {"host": host})["status"] == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9601"])
def test_sockets_and_changes_of_other_sites_are_refused(origin: str) -> None:
    foreign = {**OURS, "origin": origin}
    assert sent("websocket", foreign)["type"] == "websocket.close"
    assert sent("http", foreign, "GET", "/_nicegui_ws/socket.io/")["status"] == 403
    assert sent("http", foreign, "POST", "/login")["status"] == 403


def test_own_sockets_and_changes_pass() -> None:
    own = {**OURS, "origin": "http://127.0.0.1:9600"}
    assert sent("websocket", own)["type"] == "websocket.accept"
    assert sent("http", own, "POST", "/login")["status"] == 200


def test_a_change_without_an_origin_is_refused_if_the_browser_says_it_is_foreign() -> None:
    assert sent("http", {**OURS, "sec-fetch-site": "cross-site"}, "POST", "/logout")["status"] == 403

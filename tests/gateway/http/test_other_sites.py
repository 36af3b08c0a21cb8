"""A browser that another site has led to a gateway without logins (DNS rebinding) reads and changes nothing."""

from __future__ import annotations

import pytest
from aiohttp import ClientSession

from tests.gateway.group_client import Fresh
from tests.gateway.http.test_group_changes import Post, post
from tests.gateway.serving import Serving

__all__ = ["post"]
RECORDS = "/v1/topics/records"


def send(full: Serving, method: str, path: str, **headers: str) -> tuple[int, str]:
    url = f"{full.http_url}{path}"

    async def request() -> tuple[int, str]:
        body = b"{}" if method == "POST" else None
        headers.setdefault("Content-Type", "application/json")
        async with ClientSession() as session, session.request(method, url, headers=headers, data=body) as response:
            return response.status, await response.text()

    done: tuple[int, str] = full.run(request())
    return done


@pytest.mark.parametrize("host", ["127.0.0.1:9404", "[::1]:9404", "localhost:9404", "LOCALHOST"])
def test_our_names_and_addresses_are_served(full: Serving, post: Post, fresh: Fresh, host: str) -> None:
    topic = full.create(fresh("t"), 1)
    path = f"{RECORDS}?topic={topic.name}&partition=0&from=earliest"
    assert send(full, "GET", path, Host=host)[0] == 200
    assert send(full, "POST", RECORDS, Host=host, Origin=f"http://{host}")[0] == 400


def test_other_names_are_not(full: Serving, post: Post, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = full.create(fresh("t"), 1)
    path = f"{RECORDS}?topic={topic.name}&partition=0&from=earliest"
    for host in ("evil.example:9404", "localhost.evil.example", "127.0.0.1.evil.example", ""):
        status, text = send(full, "GET", path, Host=host)
        assert (status, "console.allowed.hosts" in text) == (403, True), host
        assert send(full, "POST", RECORDS, Host=host, Origin="http://evil.example")[0] == 403
    assert send(full, "GET", "/v1/topics", Host="evil.example")[0] == 200
    assert send(full, "POST", RECORDS, Host="muster-kafka:9404")[0] == 400, "a program may use any name"
    named = full.gateway.config.model_copy(update={"console_allowed_hosts": "x.example, Muster.example"})
    monkeypatch.setattr(full.gateway, "config", named)
    assert send(full, "GET", path, Host="muster.example:80")[0] == 200

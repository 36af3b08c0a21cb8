"""``GET /`` of a gateway: it leads to the console, or says why there is none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from aiohttp import ClientSession

from muster.actors.config import MusterConfig
from muster.gateway.http import console as http_console
from muster.placement.view import ConsoleAddress
from tests.gateway.serving import Serving


def redirect(full: Serving, **headers: str) -> tuple[int, str]:
    """Return the status and the Location, or the text."""
    url = full.http_url

    async def get() -> tuple[int, str]:
        async with ClientSession() as session, session.get(f"{url}/", headers=headers, allow_redirects=False) as found:
            return found.status, found.headers.get("Location") or await found.text()

    done: tuple[int, str] = full.run(get())
    return done


def serve_console(full: Serving, monkeypatch: pytest.MonkeyPatch, console: ConsoleAddress | None) -> None:
    monkeypatch.setattr(full.gateway, "view", replace(full.gateway.view, console=console))


def test_it_leads_to_the_console_by_the_name_that_the_browser_used(
    full: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_console(full, monkeypatch, ConsoleAddress(full.gateway.node_id, "http://10.0.0.1:9600/"))
    assert redirect(full, Host="muster.example:9404") == (307, "http://muster.example:9600/")
    assert redirect(full, Host="[::1]:9404") == (307, "http://[::1]:9600/")
    assert json.loads(full.http("/v1/cluster")[1])["console"] == "http://10.0.0.1:9600/"


def test_it_leads_to_another_node_by_its_address(full: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_console(full, monkeypatch, ConsoleAddress("another", "https://10.0.0.2:9600/"))
    assert redirect(full, Host="muster.example:9404") == (307, "https://10.0.0.2:9600/")


def test_a_browser_comes_again_while_the_console_starts(full: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_console(full, monkeypatch, None)
    status, text = redirect(full)
    assert (status, text.partition(";")[0]) == (503, "the console starts")
    assert json.loads(full.http("/v1/cluster")[1])["console"] is None


@pytest.mark.parametrize(
    ("properties", "is_installed", "why"),
    [
        ({"console.enable": "false"}, True, "console.enable=true"),
        ({}, False, "muster-kafka[console]"),
        (
            {
                "metrics.security.protocol": "SSL",
                "ssl.keystore.location": "/keys.pem",
                "listener.name.metrics.ssl.client.auth": "required",
            },
            True,
            "requires a certificate",
        ),
    ],
)
def test_it_says_why_there_is_no_console(
    full: Serving, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], is_installed: bool, why: str
) -> None:
    serve_console(full, monkeypatch, None)
    monkeypatch.setattr(full.gateway, "started_with", MusterConfig.from_properties(properties))
    monkeypatch.setattr(http_console, "_is_installed", lambda: is_installed)
    status, text = redirect(full)
    assert status == 404
    assert why in text

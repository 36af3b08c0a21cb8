"""The actor ``console`` of a real Muster: found, killed, moved to HTTPS."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Browser, expect

from tests.certificates import Authority
from tests.console.conftest import console_of
from tests.muster_process import Muster, eventually

pytestmark = [pytest.mark.ring(name="console"), pytest.mark.timeout(180)]


def test_every_gateway_leads_to_it(muster: Muster, console: str) -> None:
    for url in muster.metrics_urls:
        with urllib.request.urlopen(url.removesuffix("metrics")) as page:
            assert page.url.rstrip("/") == console
        with urllib.request.urlopen(url.replace("/metrics", "/v1/cluster")) as response:
            assert json.load(response)["console"].rstrip("/") == console


def test_its_page_is_back_after_a_kill_and_nobody_else_notices(
    browser: Browser, console: str, muster: Muster, groups: list[str]
) -> None:
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})

    def members() -> dict[str, list[str]]:
        described = admin.describe_consumer_groups(["billing"])["billing"].result(30)
        return {described.state.name: sorted(member.member_id for member in described.members)}

    context = browser.new_context()  # whose console may say that the socket is gone
    page = context.new_page()
    page.goto(console)
    expect(page.locator(".stats")).to_contain_text("Actors alive")
    page.evaluate("window.isOfTheKilled = true")
    before, gateways = members(), pids(muster, "gateway")
    (pid,) = pids(muster, "console")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: pids(muster, "console"), lambda found: found != [pid], "a new process of the console")
    page.wait_for_function("!window.isOfTheKilled", timeout=60_000)
    expect(page.locator(".stats")).to_contain_text("Actors alive", timeout=60_000)
    page.get_by_role("link", name="Groups", exact=True).first.click()
    expect(page.locator(".ag-row .is-name").first).to_be_visible(timeout=60_000)
    assert members() == before
    assert pids(muster, "gateway") == gateways
    context.close()


def pids(muster: Muster, kind: str) -> list[int]:
    return [actor["pid"] for name, actor in sorted(muster.actors().items()) if name.partition("-")[0] == kind]


def test_it_has_the_certificate_of_the_http_port(browser: Browser, tmp_path: Path) -> None:
    authority = Authority()
    properties = {
        "console.enable": "true",
        "metrics.security.protocol": "SSL",
        "ssl.keystore.location": str(authority.issue("CN=gateway").write(tmp_path / "gateway.pem")),
    }
    with Muster(tmp_path / "storage", ["--gateways", "1"], properties) as muster:
        trusting = ssl.create_default_context(cadata=authority.pem)
        trusting.check_hostname = False
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=trusting))
        url = eventually(
            lambda: opener.open(muster.ready["console"]).url, lambda url: url != muster.ready["console"], "a redirect"
        )
        assert url.startswith("https://")
        context = browser.new_context(ignore_https_errors=True)
        page = context.new_page()
        page.goto(url)
        expect(page.locator(".stats")).to_contain_text("Actors alive")
        context.close()


def test_its_port_is_the_one_that_was_set_and_a_taken_one_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        properties = {"console.enable": "true", "console.port": str(port)}
        with Muster(tmp_path / "storage", ["--gateways", "1"], properties) as muster:
            errors = eventually(
                lambda: muster.actors()["console"]["error"] or "", lambda error: "in use" in error, "the error"
            )
            assert str(port) in errors
            taken.close()
            assert console_of(muster) == f"http://127.0.0.1:{port}"

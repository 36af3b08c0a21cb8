"""Spark's runs over HTTP and from the page, on a real Muster: through RayDP, on its own Ray."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from typing import Any
from urllib.error import HTTPError

import psutil
import pytest
from playwright.sync_api import expect

from muster.actors.runtime.ray.processes import TITLE
from tests.console.conftest import Open
from tests.console.test_accessibility import findings
from tests.gateway.http.test_openapi import problems
from tests.muster_process import Muster, eventually

pytestmark = [pytest.mark.ring(name="console"), pytest.mark.timeout(420)]
RUNS = "/v1/analytics/runs"
SPARK_S = 240


def call(muster: Muster, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    url = muster.metrics_urls[-1].removesuffix("/metrics")
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except HTTPError as error:
        return error.code, json.loads(error.read())


def ended(muster: Muster, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = eventually(
        lambda: call(muster, "GET", f"{RUNS}/{run_id}")[1],
        lambda run: run["state"] != "running",
        f"the end of {run_id}",
        SPARK_S,
    )
    return found


def test_a_job_runs_from_the_page_and_its_result_is_shown(open_page: Open, muster: Muster, groups: list[str]) -> None:
    page = open_page("/analytics?range=1h")
    page.get_by_role("button", name="Run consumption").click()
    page.locator(".q-dialog").get_by_role("button", name="Run", exact=True).click()
    section = page.locator("section", has=page.get_by_role("heading", name="Consumption", exact=True))
    expect(section).to_contain_text("running", timeout=30_000)
    assert call(muster, "POST", RUNS, {"job": "lag"})[0] == 409
    expect(section).to_contain_text("succeeded", timeout=SPARK_S * 1000)
    section.get_by_role("link", name="Show the result").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Consumption")
    expect(page.locator("#main")).to_contain_text("billing")
    assert findings(page) == []
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as JSON").first.click()
    assert json.loads(download.value.path().read_text())


def test_routes_are_as_described_and_a_run_can_be_cancelled(muster: Muster, groups: list[str]) -> None:
    assert call(muster, "POST", RUNS, {"job": "what"})[0] == 400
    assert call(muster, "POST", RUNS, {"job": "lag", "from_ms": 2, "to_ms": 1})[0] == 400
    assert call(muster, "GET", f"{RUNS}/0000000000000-lag")[0] == 404
    assert call(muster, "GET", f"{RUNS}/..%2f..%2fx")[0] == 404
    status, run = call(muster, "POST", RUNS, {"job": "lag", "groups": ["billing"]})
    assert (status, problems("post", RUNS, run)) == (200, [])
    eventually(lambda: call(muster, "GET", f"{RUNS}/{run['id']}")[1]["steps"], bool, "Spark to begin", SPARK_S)
    assert call(muster, "DELETE", f"{RUNS}/{run['id']}") == (200, {"id": run["id"]})
    found = ended(muster, run["id"])
    assert (found["state"], found["result"]) == ("cancelled", None)
    assert problems("get", f"{RUNS}/{{id}}", found) == []
    assert call(muster, "DELETE", f"{RUNS}/{run['id']}")[0] == 409
    listed = call(muster, "GET", RUNS)[1]
    assert (listed["runs"][0]["id"], problems("get", RUNS, listed)) == (run["id"], [])


def test_a_report_is_a_page_without_scripts(open_page: Open, muster: Muster, groups: list[str], console: str) -> None:
    run = call(muster, "POST", RUNS, {"job": "report"})[1]
    found = ended(muster, run["id"])
    assert found["state"] == "succeeded", found
    page = open_page("/analytics")
    with page.expect_popup() as popup:
        page.get_by_role("link", name="Open the report").first.click()
    expect(popup.value.get_by_role("heading", level=1)).to_be_visible()
    with urllib.request.urlopen(f"{console}/analytics/report/{run['id']}") as response:
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]


def test_a_run_whose_process_is_killed_has_failed_and_leaves_nothing(muster: Muster, groups: list[str]) -> None:
    run = call(muster, "POST", RUNS, {"job": "failover"})[1]
    eventually(lambda: call(muster, "GET", f"{RUNS}/{run['id']}")[1]["steps"], bool, "Spark to begin", SPARK_S)
    (actor,) = [process for process in processes() if " ".join(process.cmdline()).strip() == f"{TITLE}Analytics"]
    children = actor.children(recursive=True)
    assert children
    os.kill(actor.pid, signal.SIGKILL)
    found = ended(muster, run["id"])
    assert found["state"] == "failed"
    assert "has ended" in found["error"]
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []


def processes() -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            process.cmdline()
        except psutil.Error:
            continue
        found.append(process)
    return found

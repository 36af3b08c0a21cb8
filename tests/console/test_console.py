"""The console in a browser, on a real Muster with real clients."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Browser, expect

from muster.gateway.cli.main import cli
from tests.console.conftest import HOSTILE, TOPIC, Member, Open, serving
from tests.muster_process import Muster

pytestmark = [pytest.mark.ring(name="console"), pytest.mark.timeout(120)]
PATHS = (
    "/",
    "/?range=5m",
    "/groups",
    "/group?name=billing",
    "/topics",
    f"/topic?name={TOPIC}",
    "/cluster",
    "/faults",
    "/attribution",
    "/analytics",
    "/login",
)


@pytest.mark.parametrize("path", PATHS)
def test_every_page_fits_every_width(open_page: Open, path: str) -> None:
    for width, scheme in ((320, "dark"), (390, "light"), (1280, "dark"), (3840, "light")):
        page = open_page(path, width, scheme)
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, (width, scheme)
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        assert page.evaluate("document.querySelectorAll('main, [role=main]').length") == 1


def test_a_hostile_name_is_text_everywhere(open_page: Open) -> None:
    page = open_page("/groups")
    cell = page.get_by_text(HOSTILE, exact=True)
    expect(cell).to_be_visible()
    cell.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    for form in ("Full", "JSON"):
        page.get_by_role("button", name=form, exact=True).click()
        expect(page.locator("#main")).to_contain_text(HOSTILE)
    page.get_by_role("button", name="Copy as CLI").first.click()
    expect(page.locator(".q-notification")).to_contain_text("muster groups describe '<img src=x")
    assert page.locator("img[src='x']").count() == 0


def test_a_rebalance_is_on_the_page_of_its_group(open_page: Open, muster: Muster) -> None:
    first = Member(muster.bootstrap, "joined", "first").start()
    page = open_page("/group?name=joined")
    page.reload()
    expect(page.locator(".lane li").first).to_contain_text("member joined", timeout=20_000)
    second = Member(muster.bootstrap, "joined", "second").start()
    try:
        expect(page.locator(".lane li").first).to_contain_text("second", timeout=20_000)
    finally:
        first.stop()
        second.stop()


def test_filters_and_order_are_in_the_url(open_page: Open) -> None:
    page = open_page("/groups")
    page.keyboard.press("/")
    page.keyboard.type("bill")
    expect(page.locator(".ag-row .is-name")).to_have_text(["billing"])
    page.wait_for_url(re.compile(r"q=bill"))
    page.get_by_role("columnheader", name="Lag", exact=True).click()
    page.wait_for_url(re.compile(r"sort=lag&desc=1"))
    page.reload()
    expect(page.locator(".ag-row .is-name")).to_have_text(["billing"])


def test_an_actor_is_killed_by_clicking_it(open_page: Open, muster: Muster) -> None:
    page = open_page("/cluster")
    name = next(name for name in muster.actors() if name.startswith("offsets-"))
    page.get_by_role("button", name=re.compile(f"^{name}\\b")).click()
    page.get_by_role("button", name="Kill", exact=True).click()
    expect(page.get_by_role("heading", name=f"Kill {name}")).to_be_visible()
    expect(page.locator(".q-dialog pre.cli").last).to_contain_text(f"muster fault inject kill --actor {name}")
    page.get_by_role("button", name="Kill", exact=True).last.click()
    row = page.locator("tr", has_text=re.compile(f"^{name}"))
    expect(row).to_contain_text(re.compile(r"alive.*\d+.*1"), timeout=30_000)
    faults = open_page("/faults")
    expect(faults.get_by_role("log", name="What happened")).to_contain_text(name)


def test_a_fault_is_injected_listed_and_cleared(open_page: Open) -> None:
    page = open_page("/faults?action=delay&api=Heartbeat&delay_ms=50&group=billing")
    expect(page.locator("#main")).to_contain_text("Will inject: delay 50 ms on Heartbeat, group billing")
    page.get_by_role("button", name="Inject", exact=True).click()
    listed = page.locator("section", has=page.get_by_role("heading", name="In force"))
    expect(listed).to_contain_text("delay 50 ms on Heartbeat, group billing")
    listed.get_by_role("button", name="Clear", exact=True).click()
    expect(listed).to_contain_text("No fault is in force")


def test_a_plan_runs_step_by_step(open_page: Open) -> None:
    page = open_page("/faults")
    page.get_by_label("Plan, in YAML or JSON").fill(
        "steps:\n  - {at: 0s, action: drop, group: billing, name: d}\n  - {at: 300ms, clear: d}\n"
    )
    page.get_by_role("button", name="Run", exact=True).click()
    steps = page.get_by_role("log", name="Steps of the plan")
    expect(steps).to_contain_text("2 of 2, at 0.3 s: clear d")
    expect(steps).to_contain_text("The plan is over.")


def test_offsets_are_reset_and_the_reset_undone(open_page: Open, muster: Muster, groups: list[str]) -> None:
    group, at = "nightly", TopicPartition(TOPIC, 0, 3)
    committer = Consumer({"bootstrap.servers": muster.bootstrap, "group.id": group})
    committer.commit(offsets=[at], asynchronous=False)

    def committed() -> int:
        (found,) = committer.committed([TopicPartition(TOPIC, 0)], timeout=20)
        return found.offset

    page = open_page(f"/group?name={group}")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_role("button", name="Preview").click()
    dialog = page.locator(".q-dialog")
    expect(dialog).to_contain_text("3 messages would be read again")
    assert committed() == 3
    act = dialog.get_by_role("button", name="Reset the offsets")
    expect(act).to_be_disabled()
    dialog.get_by_label("Type the group's name to confirm").fill(group)
    act.click()
    undo = dialog.get_by_role("button", name="Undo")
    expect(undo).to_be_visible()
    assert committed() == 0
    undo.click()
    expect(undo).to_be_hidden()
    assert committed() == 3
    committer.close()


def test_a_member_is_evicted_and_rejoins(open_page: Open, groups: list[str]) -> None:
    page = open_page("/group?name=billing")
    row = page.locator("tr", has_text="billing-0").first
    expect(row).to_contain_text("0\u20133")
    before = row.inner_text()
    row.get_by_role("button", name="Evict").click()
    page.locator(".q-dialog").get_by_role("button", name="Evict").click()
    expect(page.locator("tr", has_text="billing-0").first).not_to_have_text(before, timeout=30_000)
    expect(page.locator(".lane li").first).to_contain_text(re.compile("member (left|joined)"), timeout=30_000)


def test_tables_can_be_downloaded(open_page: Open) -> None:
    page = open_page("/groups")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert {"billing", HOSTILE} <= {row["group"] for row in rows}
    query = urlencode({"group": "billing"})
    found = page.request.get(f"{page.url.partition('/groups')[0]}/download/partitions.json?{query}").json()
    assert {row["topic"] for row in found} == {TOPIC}


@pytest.mark.parametrize(
    ("path", "tables"),
    [
        ("/groups", 1),
        ("/group?name=billing", 3),
        ("/topics", 1),
        (f"/topic?name={TOPIC}", 3),
        ("/cluster", 1),
        ("/attribution", 4),
    ],
)
def test_every_table_can_be_downloaded(open_page: Open, console: str, path: str, tables: int) -> None:
    page = open_page(path)
    links = page.locator(".downloads a")
    expect(links).to_have_count(2 * tables, timeout=30_000)
    found = {
        link.get_attribute("href"): page.request.get(console + str(link.get_attribute("href"))) for link in links.all()
    }
    assert {href: each.status for href, each in found.items()} == dict.fromkeys(found, 200)
    assert len(found) == 2 * tables


def test_another_gateway_responds_if_one_is_gone(browser: Browser, muster: Muster, tmp_path: Path) -> None:
    gone = "http://127.0.0.1:9"
    with serving((gone, *muster.metrics_urls), tmp_path / "log") as url:
        page = browser.new_page()
        page.goto(url)
        expect(page.locator(".attention")).to_contain_text(f"{gone} does not respond")
        expect(page.locator(".stats")).to_contain_text("Actors alive")
        page.close()


def test_wrong_credentials_are_refused(
    browser: Browser, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    storage = tmp_path_factory.mktemp("tokens") / "storage"
    tokens = storage.parent / "tokens.properties"
    token = CliRunner().invoke(cli, ["token", "add", "ann", "--file", str(tokens)]).stdout.strip()
    properties = {"http.tokens.file": str(tokens)}
    with (
        Muster(storage, ["--gateways", "1"], properties) as muster,
        serving(muster.metrics_urls, tmp_path / "log") as url,
    ):
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{url}/groups?q=x")
        expect(page.get_by_role("heading", name="Log in to Muster")).to_be_visible()
        page.get_by_label("Bearer token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("does not take these credentials")
        page.get_by_label("Bearer token").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{url}/groups?q=x")
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert token not in cookie["value"]
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url(f"{url}/login")
        page.goto(url)
        expect(page.get_by_role("heading", name="Log in to Muster")).to_be_visible()
        context.close()

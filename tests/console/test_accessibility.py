"""Pages of the console, and what opens on them, through axe-core."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import HOSTILE, TOPIC, Member, Open
from tests.muster_process import Muster

pytestmark = [pytest.mark.ring(name="console"), pytest.mark.timeout(120)]
SLOW_MS = 30_000
"""For what takes as long as a few rounds of the console's poller."""
SCHEMES = ("light", "dark")
WIDTHS = (1280, 320)
"""At 320 pixels the navigation is a row above the page, the same as at 1280 pixels and a zoom of 400 %."""


def findings(page: Page) -> list[str]:
    """Return what axe-core finds on the page, wide and narrow: by WCAG's rules and its own, of every impact."""
    page.emulate_media(reduced_motion="reduce")  # half of a fade has half of the contrast
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.mouse.move(0, 0)
        expect(page.locator(".q-tooltip")).to_have_count(0)  # of a button that came below the mouse
        for rule in Axe().run(page).response["violations"]:
            nodes = [node for node in rule["nodes"] if not is_list_of_options(rule["id"], node["target"])]
            found += [f"{rule['id']}, {rule['impact']}, {width} px: {node['html'][:400]}" for node in nodes]
    return found


def is_list_of_options(rule: str, target: list[str]) -> bool:
    """Return whether the finding is that the options of an open field are in no landmark.

    The field is, and refers to them; they are at the end of the document so that nothing covers them. A landmark of
    their own would be said with each option.
    """
    return rule == "region" and target[0].startswith("#q-portal--menu")


@pytest.fixture(scope="module")
def rebalanced(muster: Muster) -> Iterator[str]:
    """Return a group that one member has left."""
    group = "reviewers"
    stays = Member(muster.bootstrap, group, "stays").start()
    Member(muster.bootstrap, group, "leaves").start().stop()
    yield group
    stays.stop()


def chart(page: Page) -> Locator:
    return page.locator("canvas").first


FILLED = {
    "/": lambda page: page.locator(".stats").get_by_text("Actors alive"),
    "/?range=5m": chart,
    "/groups": lambda page: page.locator(".ag-row .is-name").get_by_text(HOSTILE, exact=True),
    "/group?name=billing": lambda page: page.locator("tr", has_text="billing-0").first,
    "/group?name=reviewers": lambda page: page.locator(".lane li").first,
    "/group?name=reviewers&view=full": lambda page: page.locator(".lane li dl").first,
    "/group?name=reviewers&view=json": lambda page: page.locator("pre.json"),
    "/group?name=nobody": lambda page: page.get_by_text("There is no such group"),
    "/topics?internal=1": lambda page: page.locator("tr", has_text=TOPIC),
    f"/topic?name={TOPIC}": lambda page: page.get_by_text("An offset opens the whole record."),
    "/cluster": lambda page: page.get_by_text("ZooKeeper and the coordinators agree."),
    "/faults": chart,
    "/attribution": lambda page: page.locator("tr", has_text="billing").first,
    "/analytics": lambda page: page.get_by_role("button", name="Run consumption"),
    "/login": lambda page: page.get_by_label("Bearer token"),
    "/login?failed=invalid": lambda page: page.get_by_role("alert"),
}
"""Paths, and what is on each once it has its data."""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("path", FILLED)
def test_no_page_has_a_finding(open_page: Open, rebalanced: str, path: str, scheme: str) -> None:
    page = open_page(path, scheme=scheme)
    expect(FILLED[path](page)).to_be_visible(timeout=SLOW_MS)
    assert findings(page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nor_has_what_opens_at_the_cluster(open_page: Open, scheme: str) -> None:
    page = open_page("/cluster", scheme=scheme)
    page.get_by_role("button", name=re.compile("^offsets-")).first.click()
    page.get_by_role("button", name="Kill", exact=True).click()
    expect(page.get_by_role("heading", name="Kill offsets-")).to_be_visible()
    found = findings(page)
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("heading", name="Kill offsets-")).to_be_hidden()
    found += findings(page)
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Drain", exact=True).first.click()
    expect(page.get_by_role("dialog", name=re.compile("^Drain"))).to_contain_text("move off")
    assert found + findings(page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nor_have_the_dialogs_of_a_group(open_page: Open, groups: list[str], scheme: str) -> None:
    page = open_page("/group?name=billing", scheme=scheme)
    page.locator("tr", has_text="billing-0").get_by_role("button", name="Evict").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("leaves the group at once")
    found = findings(page)
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Reset offsets").click()
    dialog.get_by_label("Move to").click()
    expect(page.get_by_role("option").first).to_be_visible()
    found += findings(page)
    page.keyboard.press("Escape")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.locator("pre.cli")).to_be_visible()
    assert found + findings(page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nor_has_a_record_or_what_produces_one(open_page: Open, groups: list[str], scheme: str) -> None:
    page = open_page(f"/topic?name={TOPIC}", scheme=scheme)
    page.locator("section", has=page.get_by_role("heading", name="Records")).locator("button.link").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Value")
    found = findings(page)
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Produce a record").click()
    expect(dialog.get_by_label("Headers")).to_be_visible()
    found += findings(page)
    dialog.get_by_label("Partition").click()
    expect(page.get_by_role("option").first).to_be_visible()
    assert found + findings(page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nor_have_faults_and_plans(open_page: Open, scheme: str) -> None:
    page = open_page("/faults?action=delay&api=Heartbeat&delay_ms=1&group=nobody", scheme=scheme)
    page.get_by_role("button", name="Inject", exact=True).click()
    notification = page.locator(".q-notification")
    expect(notification).to_contain_text("is in force")
    listed = page.locator("section", has=page.get_by_role("heading", name="In force"))
    expect(listed.get_by_role("button", name="Clear", exact=True)).to_be_visible(timeout=SLOW_MS)
    found = findings(page)
    page.get_by_label("Plan, in YAML or JSON").fill("steps:\n  - {at: 0s, action: drop, group: nobody}\n")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("log", name="Steps of the plan")).to_contain_text("The plan is over.")
    page.get_by_label("Delay (ms)").fill("x")
    page.get_by_label("Action").click()
    expect(page.get_by_role("option").first).to_be_visible()
    found += findings(page)
    page.keyboard.press("Escape")
    listed.get_by_role("button", name="Clear all").click()
    expect(listed).to_contain_text("No fault is in force", timeout=SLOW_MS)
    assert found == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nor_has_the_dialog_of_a_job(open_page: Open, scheme: str) -> None:
    page = open_page("/analytics", scheme=scheme)
    page.get_by_role("button", name="Run consumption").click()
    expect(page.get_by_role("dialog")).to_contain_text("half a minute")
    assert findings(page) == []


def test_a_finding_is_found(open_page: Open) -> None:
    page = open_page("/groups")
    page.get_by_label("Theme").evaluate("button => button.removeAttribute('aria-label')")
    page.locator("h1").evaluate("heading => { heading.style.color = 'rgb(200 200 200)'; }")
    found = [each.partition(":")[0] for each in findings(page)]
    assert found == [
        f"{rule}, {width} px" for width in WIDTHS for rule in ("button-name, critical", "color-contrast, serious")
    ]


def test_tables_are_sorted_with_the_keyboard(open_page: Open, groups: list[str]) -> None:
    page = open_page("/topics?internal=1")
    names = page.locator("td:first-child")
    expect(names.get_by_text(TOPIC)).to_be_visible()
    header = page.get_by_role("columnheader", name="Topic")
    header.get_by_role("button").press("Enter")
    expect(header).to_have_attribute("aria-sort", "ascending")
    first = names.first.inner_text()
    header.get_by_role("button").press("Enter")
    expect(header).to_have_attribute("aria-sort", "descending")
    expect(names.last).to_have_text(first)

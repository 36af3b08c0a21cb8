"""Nodes are drained from the page, on a Muster of two nodes: also the one that the console is on."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.muster_process import eventually
from tests.nodes.bench import Bench, bench

pytestmark = [pytest.mark.ring(name="console"), pytest.mark.timeout(600)]
SLOW_MS = 120_000
_PROPERTIES = {"console.enable": "true", "http.changes.enable": "true", "node.settle.ms": "2000"}


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("nodes"), 2, _PROPERTIES) as running:
        running.until_placed()
        yield running


def console_by(two_nodes: Bench, node_id: str) -> str:
    """Return the URL to which the gateway of that node leads, once that is a console."""
    actors = two_nodes.status()["actors"]
    (url,) = [each["metrics_url"] for each in actors if each["metrics_url"] and each["node_id"] == node_id]
    gateway = url.removesuffix("metrics")

    def found() -> str:
        with urllib.request.urlopen(gateway) as response:
            return str(response.url)

    return eventually(found, lambda url: url != gateway, "a redirect to the console")


def node_of(page: Page, node_id: str) -> Locator:
    return page.locator("section.node", has_text=node_id[:8])


def change(page: Page, node_id: str, name: str) -> None:
    node_of(page, node_id).get_by_role("button", name=name, exact=True).click(timeout=SLOW_MS)
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()


def is_in(page: Page, node_id: str, state: str) -> None:
    expect(node_of(page, node_id).locator(".state > span").first).to_have_text(state, timeout=SLOW_MS)


def test_a_node_is_drained_and_comes_back(browser: Browser, two_nodes: Bench) -> None:
    homes = two_nodes.until_placed()
    stays = homes["console"]
    (leaves,) = {*two_nodes.nodes.nodes} - {stays}
    page = browser.new_page()
    page.goto(console_by(two_nodes, stays) + "cluster")
    change(page, leaves, "Drain")
    expect(node_of(page, leaves).get_by_role("progressbar")).to_be_visible(timeout=SLOW_MS)
    is_in(page, leaves, "drained")
    assert leaves not in {actor["node_id"] for actor in two_nodes.status()["actors"]}
    change(page, leaves, "Undrain")
    is_in(page, leaves, "alive")
    expect(node_of(page, leaves).get_by_role("button", name="log-")).to_be_visible(timeout=SLOW_MS)
    page.close()


def test_the_console_leaves_a_node_that_is_drained_from_its_page(browser: Browser, two_nodes: Bench) -> None:
    leaves = two_nodes.until_placed()["console"]
    (stays,) = {*two_nodes.nodes.nodes} - {leaves}
    page = browser.new_page()
    page.goto(console_by(two_nodes, stays) + "cluster")
    change(page, leaves, "Drain")
    is_in(page, leaves, "drained")  # the page has come back by itself: here, both nodes have one address
    page.close()
    page = browser.new_page()
    page.goto(console_by(two_nodes, stays) + "cluster")
    is_in(page, leaves, "drained")
    assert leaves not in {actor["node_id"] for actor in two_nodes.status()["actors"]}
    expect(node_of(page, stays).get_by_role("button", name="console")).to_be_visible(timeout=SLOW_MS)
    change(page, leaves, "Undrain")
    is_in(page, leaves, "alive")
    page.close()

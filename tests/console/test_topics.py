"""Topics and their records, attribution, the mapping and drains in a browser, on a real Muster with real clients."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect

from tests.console.conftest import HOSTILE, TOPIC, Member, Open
from tests.muster_process import Muster

pytestmark = [pytest.mark.ring(name="console"), pytest.mark.timeout(120)]
SLOW_MS = 30_000
"""For what takes as long as a few rounds of the console's poller."""


@pytest.fixture(scope="module")
def reader(muster: Muster) -> Iterator[str]:
    """Return a topic with a group that reads it."""
    topic = "flights"
    producer = Producer({"bootstrap.servers": muster.bootstrap})
    for number in range(120):
        producer.produce(topic, f'{{"number": {number}}}', partition=1, headers={"trace": "t-1"})
    producer.produce(topic, HOSTILE, partition=1, headers={"binary": b"\x00\xff"})
    producer.flush()
    member = Member(muster.bootstrap, "flight-readers", "reader", topic).start()
    yield topic
    member.stop()


def test_topics_are_listed_with_what_they_hold(open_page: Open, reader: str) -> None:
    page = open_page("/topics?q=flights")
    row = page.locator("tr").filter(has_text=reader)
    expect(row).to_contain_text("121", timeout=SLOW_MS)
    expect(page.get_by_text("does not serve")).to_have_count(0)
    page.get_by_text(reader, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(reader)
    expect(page.locator("#main")).to_contain_text("flight-readers", timeout=SLOW_MS)
    expect(page.locator("#main")).to_contain_text("121 messages")


def test_records_are_browsed_from_both_ends(open_page: Open, reader: str) -> None:
    page = open_page(f"/topic?name={reader}&partition=1")
    cards = page.locator("#main")
    expect(cards).to_contain_text("Records 71 to 120", timeout=SLOW_MS)
    expect(cards).to_contain_text(HOSTILE)
    expect(cards).to_contain_text("00 ff")
    page.get_by_role("button", name="Older").click()
    expect(cards).to_contain_text("Records 21 to 70")
    expect(cards).to_contain_text('{"number": 30}')
    page.get_by_text("21", exact=True).first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text('"number": 21')
    expect(dialog).to_contain_text("Header trace")


def test_a_record_is_produced(open_page: Open, muster: Muster) -> None:
    producer = Producer({"bootstrap.servers": muster.bootstrap})
    producer.produce("tried", "the first")
    producer.flush()
    page = open_page("/topic?name=tried&partition=1")
    page.get_by_role("button", name="Produce a record").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Key").fill("a key")
    dialog.get_by_label("Value").fill(HOSTILE)
    dialog.get_by_label("Headers").fill("source=the console")
    dialog.get_by_label("Partition").click()
    page.get_by_role("option", name="1", exact=True).click()
    dialog.get_by_role("button", name="Produce", exact=True).click()
    expect(page.locator(".q-notification")).to_contain_text("of partition 1", timeout=SLOW_MS)
    page.get_by_role("button", name="Show", exact=True).click()
    cards = page.locator("#main")
    expect(cards).to_contain_text("a key", timeout=SLOW_MS)
    expect(cards).to_contain_text("source=the console")


def test_attribution_has_the_bytes_of_groups(open_page: Open, groups: list[str], reader: str) -> None:
    page = open_page("/attribution")
    cards = page.locator("#main")
    expect(cards.get_by_text("flight-readers").first).to_be_visible(timeout=SLOW_MS)
    expect(cards.get_by_text(TOPIC).first).to_be_visible(timeout=SLOW_MS)
    by_principal = page.get_by_role("region", name="Bytes by principal and topic")
    expect(by_principal.get_by_text("User:ANONYMOUS").first).to_be_visible(timeout=SLOW_MS)
    expect(page.get_by_text("does not serve")).to_have_count(0)


def test_the_mapping_is_shown(open_page: Open) -> None:
    page = open_page("/cluster")
    expect(page.locator("#main")).to_contain_text("ZooKeeper and the coordinators agree.", timeout=SLOW_MS)


def test_the_last_node_is_not_drained(open_page: Open) -> None:
    """The controller's own text says why."""
    page = open_page("/cluster")
    page.get_by_role("button", name="Drain", exact=True).first.click()
    page.get_by_role("dialog").get_by_role("button", name="Drain", exact=True).click()
    expect(page.locator(".q-notification")).to_contain_text("the last one that is not drained", timeout=SLOW_MS)


def test_members_have_the_age_of_their_heartbeat(open_page: Open, groups: list[str]) -> None:
    page = open_page("/group?name=billing")
    row = page.locator("tr").filter(has_text="billing-0").first
    expect(row).to_contain_text(re.compile(r"\d ms|\d s"), timeout=SLOW_MS)

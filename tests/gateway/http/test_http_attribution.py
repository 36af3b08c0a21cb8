"""``GET /v1/attribution``, with real logs and members; and ``GET /v1/mapping``."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from muster.actors.reconciler.counts import RepairCounts
from muster.gateway.attribution.account import Snapshot
from muster.gateway.attribution.pending_attributions import Amount
from muster.gateway.attribution.series import Total
from muster.gateway.attribution.verdict import Evidence, Reason
from muster.gateway.console.model.attribution import GROUPS, PRODUCED, Attribution, Count
from muster.gateway.http import attribution
from muster.gateway.http.attribution import seen_by, sums_of
from muster.gateway.http.callers import Caller
from muster.gateway.http.status import mapping_of
from muster.placement.view import Topic
from tests.gateway.apis.test_data_apis import fetch, produce
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.serving import Serving
from tests.log.support import client_batch

EVERYONE = Caller("User:ann", "127.0.0.1", may_all=True)


class Sees(Caller):
    """Sees one group and one topic."""

    def sees_group(self, group: str) -> bool:
        return group == "mine"

    def sees_topic(self, topic: str) -> bool:
        return topic == "shown"


@pytest.fixture(autouse=True)
def always_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no response be that of an earlier request."""
    monkeypatch.setattr(attribution, "_FRESH_S", 0.0)


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    topic = full.create(fresh("t"), 2)
    for partition in range(2):
        produce(full.client, (topic, partition, client_batch(3)))
    return topic


def report(full: Serving, topic: Topic) -> dict[str, Any]:
    """Return the rows of the topic, without its name."""
    status, text = full.http("/v1/attribution")
    found = json.loads(text)
    assert status == 200, found
    for name, place in (
        ("groups", 1),
        ("reasons", 1),
        ("pending", 0),
        ("removed", 0),
        ("produced", 0),
        ("principals", 1),
    ):
        rows = [row for row in found[name] if row[place] == topic.name]
        found[name] = [[*row[:place], *row[place + 1 :]] for row in rows]
    return dict(found)


def test_bytes_of_a_group_and_of_nobody(full: Serving, topic: Topic, fresh: Fresh) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    client = full.connect("reader")
    Member(client, group).commit((topic, 0, 0), (topic, 1, 0))
    size_bytes = sum(len(part.records) for part in fetch(client, (topic, 0, 0), (topic, 1, 0)))
    fetch(full.connect("__muster_audit"), (topic, 0, 0))
    found = report(full, topic)
    assert found["groups"] == [[group, "same_connection", 6, size_bytes]]
    assert found["reasons"] == [["internal", 3, size_bytes // 2]]
    assert [found[name] for name in ("pending", "removed", "hidden_bytes")] == [[], [], 0]
    assert found["produced"] == [[6, size_bytes]]
    assert found["principals"] == [["User:ANONYMOUS", 9, size_bytes + size_bytes // 2]]
    assert found["gateway"] == full.gateway.id


def test_what_waits_for_evidence_is_pending(full: Serving, topic: Topic) -> None:
    (part,) = fetch(full.connect("nobody's"), (topic, 0, 0))
    found = report(full, topic)
    assert (found["pending"], found["groups"], found["reasons"]) == ([[3, len(part.records)]], [], [])
    assert found["principals"] == [["User:ANONYMOUS", 3, len(part.records)]]


def test_the_console_adds_up_what_is_new(full: Serving, topic: Topic, fresh: Fresh) -> None:
    group, model = fresh("g"), Attribution()
    find(full.client, 4, group)
    client = full.connect("reader")
    Member(client, group).commit((topic, 0, 0))
    (part,) = fetch(client, (topic, 0, 0))
    for _ in range(2):
        model.feed(json.loads(full.http("/v1/attribution")[1]))
    assert model.sums(GROUPS)[group] == Count(3, len(part.records))
    assert model.sums(PRODUCED)[topic.name].messages == 6


def test_the_incarnation_stays(full: Serving, topic: Topic) -> None:
    assert report(full, topic)["incarnation"] == report(full, topic)["incarnation"]


def books(amount: int) -> Snapshot:
    """Books with that many bytes in each place."""
    total = Total(1, amount, 1, 0)
    places = [(name, partition) for name in ("shown", "secret") for partition in range(2)]
    names = [(group, *place) for group in ("mine", "theirs") for place in places]
    return Snapshot(
        sent={},
        groups={(group, Evidence.SESSION, topic, partition): total for group, topic, partition in names},
        reasons={(Reason.UNKNOWN, *place): total for place in places},
        overflow=dict.fromkeys(places, total),
        removed=dict.fromkeys(places, total),
        pending=dict.fromkeys(places, Amount(1, amount)),
        principals={(name, place): total for name in ("User:ann", "User:bob") for place in ("shown", "secret")},
        folded=0,
    )


def test_partitions_are_summed_up_and_no_byte_is_lost() -> None:
    sums = sums_of(books(10), {"shown": (1, 7), "secret": (1, 7)}, 5)
    whole = seen_by(EVERYONE, sums)
    assert ["mine", "shown", "session", 2, 20] in whole["groups"]
    assert sorted(whole["reasons"])[:2] == [["overflow", "secret", 2, 20], ["overflow", "shown", 2, 20]]
    assert whole["hidden_bytes"] == 0
    some = seen_by(Sees("User:ann", "127.0.0.1", may_all=False), sums)
    assert some["groups"] == [["mine", "shown", "session", 2, 20]]
    assert some["produced"] == [["shown", 1, 7]]
    assert "secret" not in json.dumps(some)
    assert some["principals"] == [["User:ann", "shown", 1, 10]]
    assert len(whole["principals"]) == 4
    fetched = ("groups", "reasons", "pending", "removed")
    in_rows = [sum(row[-1] for name in fetched for row in found[name]) for found in (whole, some)]
    assert in_rows[0] == in_rows[1] + some["hidden_bytes"] == 10 * (8 + 4 * 4)


def test_what_no_longer_waits_has_no_row() -> None:
    waiting = replace(books(10), pending={("shown", 0): Amount(0, 0), ("secret", 0): Amount(0, 4)})
    assert seen_by(EVERYONE, sums_of(waiting, {}, 5))["pending"] == [["secret", 0, 4]]


def test_the_mapping_is_the_reconcilers() -> None:
    counts = RepairCounts()
    counts.skipped()
    status = {**counts.status(0.0), "dry_run": False, "zookeeper_connected": True, "trouble": "no ZooKeeper"}
    found = mapping_of(status)
    assert (found["rounds"], found["skipped_rounds"], found["trouble"]) == (0, 1, "no ZooKeeper")
    assert (found["divergence"], found["repairs"]) == ({}, {})


def test_without_a_reconciler_there_is_no_mapping(full: Serving) -> None:
    assert full.http("/v1/mapping") == (503, json.dumps({"error": "there is no reconciler"}))

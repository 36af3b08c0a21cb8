from __future__ import annotations

from typing import Any

import pytest

from muster.actors.faults.errors import InvalidFault
from muster.actors.faults.model import ACTIONS, FIELDS
from muster.gateway.console.model import cluster, faults, members, reset, topics
from muster.gateway.console.model.marks import ACTOR, FAULT, Mark, Marks, actor_mark, fault_mark
from muster.gateway.console.model.snapshot import ActorRow, FaultRow, NodeRow, Snapshot


def test_the_form_has_every_field_of_a_fault() -> None:
    assert {*faults.ACTOR_ACTIONS, *faults.REQUEST_ACTIONS} == set(ACTIONS)
    shown = {name for action in ACTIONS for name in faults.fields_of(action)}
    assert shown == set(FIELDS) - {"action"}


def test_a_fault_from_the_form() -> None:
    texts = {
        "group": " g ",
        "delay_ms": "500",
        "when": "nth",
        "nth": "3",
        "phase": "before",
        "error": "NOT_COORDINATOR",
    }
    assert faults.from_form("delay", texts) == {"action": "delay", "group": "g", "delay_ms": 500, "when": {"nth": 3}}
    assert faults.from_form("kill", {"actor": "offsets-7", "group": ""}) == {"action": "kill", "actor": "offsets-7"}


@pytest.mark.parametrize(
    ("action", "texts", "problem"),
    [
        ("delay", {"delay_ms": "soon"}, "is not a number"),
        ("delay", {}, "needs delay_ms"),
        ("kill", {}, "needs either actor"),
        ("error", {"error": "NOPE"}, "is no error of Kafka"),
    ],
)
def test_what_is_wrong_with_a_form(action: str, texts: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidFault, match=problem):
        faults.from_form(action, texts)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("earliest", None, None, "", ""), {"to": {"earliest": True}, "topics": None}),
        (("shift", -5.0, None, "t", "0, 1"), {"to": {"shift": -5}, "topics": ["t:0,1"]}),
        (("time_ms", None, 7, "t", ""), {"to": {"time_ms": 7}, "topics": ["t"]}),
        (("undo", None, None, "t", ""), {"to": {"undo": True}, "topics": None}),
    ],
)
def test_the_request_of_a_reset(arguments: Any, expected: dict[str, Any]) -> None:
    assert reset.request("g", *arguments) == {"group": "g", **expected}


@pytest.mark.parametrize(
    "arguments", [("offset", None, None, "", ""), ("time_ms", 1.0, None, "", ""), ("latest", 1.0, None, "t", "a")]
)
def test_a_reset_that_lacks_something(arguments: Any) -> None:
    with pytest.raises(ValueError, match=r"give|numbers"):
        reset.request("g", *arguments)


def test_a_reset_in_words() -> None:
    changes = [{"read_again": 20, "skipped": 0}, {"read_again": 0, "skipped": 1000}]
    assert reset.summary({"changes": changes, "executed": False}) == (
        "The offsets of 2 partitions would move; 20 messages would be read again and 1\u202f000 would be skipped."
    )
    assert reset.summary({"changes": changes, "refused": "it has members"}) == "it has members"


def test_members_have_the_lag_of_what_they_own() -> None:
    described = {"members": [{"member_id": "m", "client_id": "c", "host": "/h", "assignment": {"t": [1, 0]}}]}
    lag = {"partitions": [{"topic": "t", "partition": p, "member_id": "m", "lag": p, "lag_s": None} for p in (0, 1)]}
    (row,) = members.member_table(described, lag).rows
    assert (row["host"], row["partitions"], row["lag"], row["lag_s"]) == ("h", "t 0–1", 1, None)  # noqa: RUF001
    (row,) = members.member_table(None, lag).rows
    assert (row["member_id"], row["assigned"]) == ("m", 2)


def test_values_of_records_in_each_form() -> None:
    json_text = {"text": '{"a":1}'}
    assert topics.shown(json_text).text == '{\n  "a": 1\n}'
    assert topics.shown(json_text, "text").text == '{"a":1}'
    assert topics.shown({"text": '{"a":', "cut": True}, "json") == ('{"a":', "text", True)
    assert topics.shown({"hex": "ff00"}) == ("ff 00", "hex", False)
    assert topics.shown({"hex": "6869"}, "text").text == "hi"
    assert topics.shown(None).text == "null"


def test_actors_are_in_the_box_of_their_node_in_order() -> None:
    actors = tuple(
        ActorRow(name, "alive", node_id=node)
        for name, node in (("offsets-10", "n"), ("offsets-9", "n"), ("log-0", None))
    )
    boxes = cluster.boxes(Snapshot(nodes=(NodeRow("n", "h", "alive"),), actors=actors))
    assert [[actor.name for role in box.roles for actor in role.actors] for box in boxes] == [
        ["offsets-9", "offsets-10"],
        ["log-0"],
    ]
    assert cluster.drain_progress(NodeRow("n", "h", "draining", ("a",)), 4) == 0.75


def test_marks_are_what_differs_between_snapshots() -> None:
    marks = Marks()
    marks.saw_actors([ActorRow("log-0", "alive", pid=1)], 0)
    marks.saw_actors([ActorRow("log-0", "restarting", pid=1)], 1_000)
    marks.saw_actors([ActorRow("log-0", "alive", pid=2)], 2_000)
    fault = FaultRow("f-1", {"action": "kill"}, 1_500, None, 0, 0, "log-0", 1)
    marks.saw_faults([fault], 3_000)
    marks.saw_faults([], 4_000)
    assert [mark._replace(subject="") for mark in marks.since()] == [
        Mark(1_000, ACTOR, "log-0 is restarting"),
        Mark(1_500, FAULT, "kill log-0"),
        Mark(2_000, ACTOR, "log-0 serves"),
        Mark(4_000, FAULT, "end of kill log-0"),
    ]
    marks.forget(2_000)
    assert len(marks.since()) == 2


def test_marks_of_one_millisecond_stay_in_the_order_in_which_they_came() -> None:
    marks = Marks()
    fault = {"action": "error", "error": "NOT_COORDINATOR"}
    for at_ms, is_end in ((2_000, False), (2_000, True), (1_000, False)):
        marks.add(fault_mark(at_ms, fault, "log-0" if at_ms == 1_000 else None, is_end=is_end))
    assert [mark.text for mark in marks.since()] == [
        "error log-0 NOT_COORDINATOR",
        "error NOT_COORDINATOR on all requests",
        "end of error NOT_COORDINATOR on all requests",
    ]


def test_of_two_sources_the_first_that_knows_makes_the_mark() -> None:
    marks = Marks()
    marks.add(actor_mark(1_000, "log-0", "down"))
    marks.add(actor_mark(1_900, "log-0", "restarting"))
    marks.add(actor_mark(2_000, "log-1", "restarting"))
    marks.add(actor_mark(2_100, "log-0", "alive"))
    marks.add(actor_mark(60_000, "log-0", "restarting"))
    assert [mark.text for mark in marks.since()] == [
        "log-0 is down",
        "log-1 is restarting",
        "log-0 serves",
        "log-0 is restarting",
    ]

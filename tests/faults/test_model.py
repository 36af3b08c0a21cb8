"""Valid faults, and the messages for invalid ones."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from muster.actors.faults import Fault, InvalidFault
from muster.actors.faults.model import ACTIONS, FIELDS
from muster.actors.tables.schemas.cluster import FAULTS_SCHEMA

GOOD: tuple[dict[str, Any], ...] = (
    {"action": "kill", "actor": "offsets-9"},
    {"action": "pause", "group": "orders", "expires_ms": 500},
    {"action": "continue", "actor": "controller"},
    {"action": "slow", "actor": "log-0", "speed": 0.25},
    {"action": "error", "error": "NOT_COORDINATOR"},
    {
        "action": "error",
        "api": "OffsetCommit",
        "group": "g",
        "topic": "t",
        "partition": 0,
        "error": "REQUEST_TIMED_OUT",
    },
    {"action": "no-answer", "api": "JoinGroup", "member": "m", "when": "once", "phase": "after"},
    {"action": "drop", "client_id": "c", "gateway": 2, "when": {"nth": 3}},
    {"action": "delay", "api": "Produce", "topic": "t", "delay_ms": 10, "when": {"probability": 0.5, "seed": -3}},
    {"action": "close", "partition": 7, "expires_ms": 1},
    {"action": "close", "api": "Metadata", "topic": "t"},
)


@pytest.mark.parametrize("fields", GOOD, ids=lambda fields: fields["action"])
def test_json_there_and_back(fields: dict[str, Any]) -> None:
    fault = Fault.from_json(fields)
    assert fault.to_json() == fields
    assert Fault.from_json(json.loads(json.dumps(fault.to_json()))) == fault


@pytest.mark.parametrize("fields", GOOD, ids=lambda fields: fields["action"])
def test_a_copy_for_another_process_is_the_same(fields: dict[str, Any]) -> None:
    fault = Fault.from_json(fields)
    copy = pickle.loads(pickle.dumps(fault))
    assert (copy, type(copy), hash(copy)) == (fault, type(fault), hash(fault))


def test_a_fault_cannot_be_changed() -> None:
    fault = Fault("drop")
    with pytest.raises(AttributeError, match="cannot assign to field"):
        fault.group = "g"


def test_what_is_the_default_may_be_said() -> None:
    assert Fault("kill", group="g", when="always", phase="before", expires_ms=None) == Fault("kill", group="g")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"error": 16}, "NOT_COORDINATOR"),
        ({"error": "16"}, "NOT_COORDINATOR"),
        ({"error": "-1"}, "UNKNOWN_SERVER_ERROR"),
        ({"error": "not_coordinator"}, "NOT_COORDINATOR"),
        ({"error": 16, "gateway": "gateway-2"}, 2),
    ],
)
def test_what_may_be_said_in_two_ways_is_kept_in_one(given: dict[str, Any], kept: Any) -> None:
    assert kept in Fault.from_json({"action": "error", **given}).to_json().values()


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "action is missing; there are kill, pause"),
    ({"action": "errror"}, "action: 'errror' is not known (did you mean error?); there are close, continue, delay"),
    ({"action": "drop", "gropu": "g"}, "gropu is no field of a fault (did you mean group?); there are action, actor"),
    ({"action": "drop", "client-id": "c"}, "(did you mean client_id?)"),
    ({"action": "drop", "api": "Joingroup"}, "api: 'Joingroup' is not known (did you mean JoinGroup?)"),
    (
        {"action": "drop", "phase": "later"},
        "phase: 'later' is not known (did you mean after?); there are after, before",
    ),
    ({"action": "error"}, "error needs error"),
    ({"action": "error", "error": "NOT_CORDINATOR"}, "is no error of Kafka (did you mean NOT_COORDINATOR?)"),
    ({"action": "error", "error": 4711}, "4711 is no error code of Kafka"),
    ({"action": "error", "error": 0}, "0 is no error code of Kafka (0 is NONE, which is no error)"),
    ({"action": "error", "error": "NONE"}, "NONE is no error"),
    ({"action": "drop", "error": "NOT_COORDINATOR"}, "error is for error, not for drop"),
    ({"action": "delay"}, "delay needs delay_ms"),
    ({"action": "delay", "delay_ms": 0}, "delay_ms has to be a whole number from 1"),
    ({"action": "delay", "delay_ms": 1.5}, "delay_ms has to be a whole number from 1"),
    ({"action": "delay", "delay_ms": True}, "delay_ms has to be a whole number from 1"),
    ({"action": "close", "delay_ms": 5}, "delay_ms is for delay, not for close"),
    ({"action": "close", "group": ""}, "group has to be a text that is not empty"),
    ({"action": "close", "expires_ms": 2**60}, "expires_ms has to be a whole number from 1"),
    ({"action": "close", "when": "twice"}, 'when has to be always, once, {"nth": N} or {"probability": P, "seed": S}'),
    ({"action": "close", "when": {"nth": 0}}, "when: nth has to be a whole number from 1"),
    ({"action": "close", "when": {"nth": 1, "seed": 1}}, "when has to be always, once"),
    ({"action": "close", "when": {"probability": 0.5}}, "when: a probability needs a seed, so that it can be replayed"),
    ({"action": "close", "when": {"probability": 0, "seed": 1}}, "when: probability has to be a number from 0"),
    ({"action": "close", "when": {"probability": 0.5, "seed": "x"}}, "when: seed has to be a whole number"),
    ({"action": "close", "actor": "log-0"}, "close acts on requests: actor is for continue, kill, pause, slow"),
    ({"action": "close", "api": "Produce", "group": "g"}, "a request of Produce names no group"),
    ({"action": "close", "api": "DescribeGroups", "member": "m"}, "a request of DescribeGroups names no member"),
    ({"action": "close", "api": "Heartbeat", "topic": "t"}, "a request of Heartbeat names no topic"),
    (
        {"action": "close", "api": "Metadata", "topic": "t", "partition": 1},
        "a request of Metadata names no partition of a topic",
    ),
    (
        {"action": "close", "api": "Fetch", "partition": 1},
        "a request of Fetch names no group: give the topic of the partition",
    ),
    ({"action": "kill"}, "kill needs either actor, or group"),
    ({"action": "kill", "actor": "log-0", "group": "g"}, "kill needs either actor, or group"),
    ({"action": "kill", "actor": "offset-9"}, "actor: 'offset-9' is no actor (did you mean offsets-?)"),
    ({"action": "kill", "actor": "log-0", "api": "Fetch"}, "kill acts on an actor, not on requests, and takes no api"),
    ({"action": "kill", "actor": "log-0", "when": "once"}, "kill acts at once and takes no when"),
    ({"action": "kill", "actor": "log-0", "phase": "after"}, "kill acts on an actor and takes no phase"),
    ({"action": "kill", "actor": "log-0", "expires_ms": 5}, "kill acts at once and takes no expires_ms"),
    ({"action": "slow", "actor": "log-0"}, "slow needs speed"),
    ({"action": "slow", "actor": "log-0", "speed": 1}, "speed has to be a number between 0 and 1, both excluded"),
    ({"action": "pause", "actor": "log-0", "speed": 0.5}, "speed is for slow, not for pause"),
)


@pytest.mark.parametrize(("fields", "text"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_what_cannot_be(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidFault) as refused:
        Fault.from_json(fields)
    assert text in str(refused.value)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidFault) as refused:
        Fault("delay", delay_ms=0, api="Produc", when="never")
    assert [problem.split()[0] for problem in refused.value.problems] == ["api:", "when", "delay_ms"]


@pytest.mark.parametrize("value", [None, [], "drop", 5])
def test_what_is_no_object(value: Any) -> None:
    with pytest.raises(InvalidFault, match="a fault is an object with an action"):
        Fault.from_json(value)


def test_every_field_says_what_it_means() -> None:
    assert all(FIELDS.values())
    assert set().union(*GOOD) == set(FIELDS)
    assert all(ACTIONS.values())


def test_the_table_names_every_action() -> None:
    described = FAULTS_SCHEMA.arrow.field("action").metadata[b"meaning"].decode()
    assert set(described.split(", ")) == set(ACTIONS)

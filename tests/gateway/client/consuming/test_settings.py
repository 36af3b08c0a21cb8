"""Settings of members, and their properties for librdkafka."""

from __future__ import annotations

from typing import Any

import pytest

from muster.gateway.client.cluster import Cluster
from muster.gateway.client.consuming.settings import Consumption, consumption
from muster.gateway.client.errors import InvalidConsumer


def settings(**given: Any) -> Consumption:
    known: dict[str, Any] = {
        "max_records": 500,
        "attempts": 5,
        "dead_letters": None,
        "consumer_config": {},
        "topics": "t",
        "group": "g",
    }
    return consumption(Cluster("127.0.0.1:9092"), **{**known, **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topics": []}, "no topic"),
        ({"topics": ["a", ""]}, "no topic"),
        ({"group": ""}, "group is empty"),
        ({"max_records": 0}, "max_records cannot be 0"),
        ({"attempts": 0}, "attempts cannot be 0"),
        ({"topics": ["a", "b"], "dead_letters": "b"}, "dead letters cannot go to b"),
        ({"consumer_config": {"enable.auto.commit": True}}, "cannot have enable.auto.commit"),
        ({"consumer_config": {"group.instance.id": "1"}}, "cannot have group.instance.id"),
        ({"consumer_config": {"error_cb": print}}, "has a builtin_function_or_method for error_cb"),
    ],
)
def test_what_cannot_be_consumed_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConsumer, match=message):
        settings(**given)


def test_topics_are_read_once() -> None:
    assert settings(topics=["b", "a", "b"]).topics == ("b", "a")
    assert settings(topics="a").topics == ("a",)


def test_members_commit_themselves_and_give_up_only_what_moves() -> None:
    found = settings().consumer_properties("client")
    assert found["enable.auto.commit"] is False
    assert found["enable.partition.eof"] is True
    assert found["partition.assignment.strategy"] == "cooperative-sticky"
    assert found["auto.offset.reset"] == "earliest"
    assert (found["group.id"], found["client.id"]) == ("g", "client")


def test_the_consumer_protocol_takes_no_settings_of_the_classic_one() -> None:
    found = settings(consumer_config={"group.protocol": "consumer"}).consumer_properties("client")
    assert not {"partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms"} & found.keys()


@pytest.mark.parametrize(("reset", "at_end"), [("earliest", False), ("latest", True), ("error", True)])
def test_where_a_group_begins_is_known(reset: str, at_end: bool) -> None:
    assert settings(consumer_config={"auto.offset.reset": reset}).starts_at_end is at_end
    assert settings().starts_at_end is False

"""Topics that the controller creates in a real ZooKeeper: the defaults for what the client omitted."""

from __future__ import annotations

import asyncio
import logging

import pytest

from muster.actors.config import MusterConfig
from muster.actors.controller.admin import NewTopic
from muster.actors.controller.topics import TopicsAdmin
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.configs import ConfigRegistry
from muster.placement.topics import TopicRegistry
from muster.placement.view import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from muster.placement.zookeeper.client import ZooKeeperClient


def topics_admin(zk: ZooKeeperClient, **properties: str) -> TopicsAdmin:
    config = MusterConfig.from_properties({name.replace("_", "."): value for name, value in properties.items()})
    admin = TopicsAdmin(TopicRegistry(zk), ConfigRegistry(zk), config, lambda: None)
    admin.load()
    return admin


def create(admin: TopicsAdmin, *topics: NewTopic, validate_only: bool = False) -> None:
    outcomes = asyncio.run(admin.create(topics, validate_only))
    assert [outcome.error for outcome in outcomes] == [0] * len(topics)


def test_what_the_client_leaves_open_is_the_configurations_to_say(zk: ZooKeeperClient) -> None:
    admin = topics_admin(zk, num_partitions="4", default_replication_factor="2", offsets_topic_num_partitions="5")
    create(admin, NewTopic("open", -1, -1, {}), NewTopic("said", 3, 1, {}))
    found = {name: (topic.partitions, topic.replication_factor) for name, topic in TopicRegistry(zk).load().items()}
    assert found == {"open": (4, 2), "said": (3, 1), OFFSETS_TOPIC: (5, 3)}


def test_a_replication_factor_is_kept_when_the_topic_grows(zk: ZooKeeperClient) -> None:
    admin = topics_admin(zk)
    create(admin, NewTopic("flights", 1, 3, {}))
    asyncio.run(admin.add_partitions({"flights": 2}, False))
    flights = TopicRegistry(zk).load()["flights"]
    assert (flights.partitions, flights.replication_factor) == (2, 3)


def test_that_there_is_one_copy_is_said_once(zk: ZooKeeperClient, caplog: pytest.LogCaptureFixture) -> None:
    admin = topics_admin(zk)
    with caplog.at_level(logging.WARNING, "muster.actors.controller.topics"):
        create(admin, NewTopic("one", 1, 1, {}), NewTopic("open", 1, -1, {}))
        create(admin, NewTopic("tried", 1, 3, {}), validate_only=True)
        assert caplog.messages == []
        create(admin, NewTopic("first", 1, 3, {}), NewTopic("second", 1, 2, {}))
        create(admin, NewTopic("third", 1, 5, {}))
    (line,) = caplog.messages
    assert line.startswith("topic first has replication factor 3")
    assert "storage.path" in line
    assert "max.replication.factor=1" in line


def test_the_topic_of_transactions_is_created_when_it_is_needed(zk: ZooKeeperClient) -> None:
    """Not by a client: it would be a topic like any other, which a log actor writes."""
    admin = topics_admin(zk, transaction_state_log_num_partitions="7", transaction_state_log_replication_factor="2")
    for validate_only in (True, False):
        (refused,) = asyncio.run(admin.create([NewTopic(TRANSACTIONS_TOPIC, 1, 1, {})], validate_only))
        assert refused.error == ErrorCode.invalid_topic_exception
    assert TRANSACTIONS_TOPIC not in TopicRegistry(zk).load()
    for _ in range(2):
        topic = asyncio.run(admin.require(TRANSACTIONS_TOPIC))
        assert (topic.partitions, topic.replication_factor, topic.internal) == (7, 2, True)
    assert TopicRegistry(zk).load()[TRANSACTIONS_TOPIC] == topic
    assert topic.config == {"cleanup.policy": "compact", "compression.type": "uncompressed"}


def test_how_many_partitions_topics_have_is_read_anew(zk: ZooKeeperClient) -> None:
    admin = topics_admin(zk)
    create(admin, NewTopic("kept", 2, 1, {}), NewTopic("deleted", 2, 1, {}))
    other = TopicRegistry(zk)
    other.add_partitions("kept", 3)
    other.delete("deleted")
    assert asyncio.run(admin.partition_counts(["kept", "deleted", "unknown"])) == {"kept": 3}

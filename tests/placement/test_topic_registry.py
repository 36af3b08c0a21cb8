"""Topics in a real ZooKeeper."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from kazoo.exceptions import BadVersionError

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement import topics
from muster.placement.epochs import next_epoch
from muster.placement.topics import InvalidPartitions, InvalidTopic, TopicExists, TopicRegistry, UnknownTopic
from muster.placement.view import Topic
from muster.placement.zookeeper.client import ZooKeeperClient, connect


def test_a_topic_is_found_as_it_was_created(zk: ZooKeeperClient) -> None:
    registry = TopicRegistry(zk)
    assert registry.load() == {}
    flights = registry.create("flights", 6, {"retention.ms": "1000"})
    offsets = registry.create("__consumer_offsets", 50, {"cleanup.policy": "compact"}, internal=True)
    assert TopicRegistry(zk).load() == {"__consumer_offsets": offsets, "flights": flights}
    assert (flights.partitions, flights.internal, offsets.internal) == (6, False, True)
    assert flights.topic_id.int not in (0, offsets.topic_id.int)


def test_the_nodes_are_kafkas(zk: ZooKeeperClient) -> None:
    topic = TopicRegistry(zk).create("flights", 2, {"retention.ms": "1000"})
    node = json.loads(zk.get("/brokers/topics/flights")[0])
    assert node["version"] == 3
    assert set(node["partitions"]) == {"0", "1"}
    assert len(node["topic_id"]) == 22
    assert json.loads(zk.get("/config/topics/flights")[0]) == {"version": 1, "config": {"retention.ms": "1000"}}
    assert next_epoch(zk, "flights", 1, "log-0") == 0
    state = json.loads(zk.get("/brokers/topics/flights/partitions/1/state")[0])
    assert (state["version"], state["leader_epoch"], state["isr"], state["owner"]) == (1, 0, [], "log-0")
    assert topic.topic_id.version == 4


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a:b", "a\n"])
def test_names_that_kafka_refuses(zk: ZooKeeperClient, name: str) -> None:
    with pytest.raises(InvalidTopic, match="Topic name is invalid"):
        TopicRegistry(zk).create(name, 1)
    assert TopicRegistry(zk).load() == {}


@pytest.mark.parametrize("name", ["a" * 249, "a.b-c_D9", "...", "_"])
def test_names_that_kafka_takes(zk: ZooKeeperClient, name: str) -> None:
    TopicRegistry(zk).create(name, 1)
    assert list(TopicRegistry(zk).load()) == [name]


def test_a_period_and_an_underscore_collide(zk: ZooKeeperClient) -> None:
    registry = TopicRegistry(zk)
    registry.create("a.b", 1)
    with pytest.raises(InvalidTopic, match=r"Topic 'a_b' collides with existing topics: a.b"):
        registry.create("a_b", 1)


@pytest.mark.parametrize("partitions", [0, -1, topics.MAX_PARTITIONS + 1])
def test_impossible_partition_counts(zk: ZooKeeperClient, partitions: int) -> None:
    with pytest.raises(InvalidPartitions, match=str(partitions)):
        TopicRegistry(zk).create("t", partitions)


def test_of_competing_creations_one_wins(zk: ZooKeeperClient) -> None:
    registry = TopicRegistry(zk)
    names = ["t.x", "t_x"] * 4

    def attempt(name: str) -> str:
        try:
            return registry.create(name, 1).name
        except (TopicExists, InvalidTopic) as error:
            return type(error).__name__

    with ThreadPoolExecutor(len(names)) as pool:
        outcomes = list(pool.map(attempt, names))
    assert len([outcome for outcome in outcomes if outcome in names]) == 1
    assert len(registry.load()) == 1


def test_a_creation_that_comes_too_late_leaves_nothing(zk: ZooKeeperClient) -> None:
    registry = TopicRegistry(zk)
    names, version = registry._names()
    assert names == frozenset()
    registry.create("a.b", 1)
    with pytest.raises(BadVersionError):
        registry._write_new(Topic(name="a_b", topic_id=uuid4(), partitions=1), version)
    assert list(registry.load()) == ["a.b"]
    assert not zk.exists("/config/topics/a_b")


def test_a_configuration_without_topic_is_no_obstacle(zk: ZooKeeperClient) -> None:
    zk.create("/config/topics/flights", b"left over", makepath=True)
    created = TopicRegistry(zk).create("flights", 1, {"retention.ms": "1"})
    assert TopicRegistry(zk).load() == {"flights": created}


def test_what_is_no_configuration_hides_no_topic(zk: ZooKeeperClient) -> None:
    """Otherwise one node would keep the controller from starting."""
    registry = TopicRegistry(zk)
    created = registry.create("flights", 1)
    zk.set("/config/topics/flights", b"not JSON")
    assert registry.load() == {"flights": created}
    assert registry.add_partitions("flights", 2).partitions == 2
    registry.delete("flights")
    assert registry.load() == {}


def test_deleting_takes_state_and_configuration_along(zk: ZooKeeperClient) -> None:
    registry = TopicRegistry(zk)
    first = registry.create("flights", 3, {"retention.ms": "1"})
    for partition in range(3):
        next_epoch(zk, "flights", partition, "log-0")
    assert registry.delete("flights") == first
    assert not zk.exists("/brokers/topics/flights")
    assert not zk.exists("/config/topics/flights")
    with pytest.raises(UnknownTopic, match="Topic 'flights' does not exist"):
        registry.delete("flights")
    assert registry.create("flights", 1).topic_id != first.topic_id


def test_the_largest_topic_can_be_deleted_with_all_of_its_epochs(zk: ZooKeeperClient) -> None:
    name = "x" * topics.MAX_NAME_LENGTH
    TopicRegistry(zk).create(name, topics.MAX_PARTITIONS)
    paths = [f"/brokers/topics/{name}/partitions/{partition}" for partition in range(topics.MAX_PARTITIONS)]
    zk.create(f"/brokers/topics/{name}/partitions")
    for start in range(0, len(paths), 250):
        part = paths[start : start + 250]
        zk.commit([*(("create", path) for path in part), *(("create", f"{path}/state") for path in part)])
    TopicRegistry(zk).delete(name)
    assert TopicRegistry(zk).load() == {}


def test_partitions_only_grow(zk: ZooKeeperClient) -> None:
    registry = TopicRegistry(zk)
    created = registry.create("flights", 3, {"retention.ms": "1"})
    grown = registry.add_partitions("flights", 5)
    assert (grown.partitions, grown.topic_id, grown.config) == (5, created.topic_id, created.config)
    assert registry.load() == {"flights": grown}
    with pytest.raises(InvalidPartitions, match="Topic already has 5 partitions"):
        registry.add_partitions("flights", 5)
    with pytest.raises(InvalidPartitions, match="currently has 5 partitions, which is higher than the requested 4"):
        registry.add_partitions("flights", 4)
    with pytest.raises(UnknownTopic):
        registry.add_partitions("other", 4)


def test_topics_survive_a_restart_of_zookeeper(tmp_path: Path) -> None:
    with EmbeddedZooKeeper.start(tmp_path) as server, ExitStack() as ending:
        client = connect(server.hosts, timeout_s=60)
        ending.callback(client.shut)
        registry = TopicRegistry(client)
        flights = registry.create("flights", 6, {"retention.ms": "1000"})
        assert next_epoch(client, "flights", 0, "log-0") == 0
        server.stop()
        with EmbeddedZooKeeper.start(tmp_path, server.port):
            client.call(client.exists_async, "/", timeout_s=60)
            assert registry.load() == {"flights": flights}
            assert next_epoch(client, "flights", 0, "log-0") == 1
            assert registry.delete("flights") == flights

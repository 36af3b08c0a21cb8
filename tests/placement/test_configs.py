"""Configurations in a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from muster.placement.configs import ConfigRegistry
from muster.placement.epochs import Superseded, take_controller_epoch
from muster.placement.layout import DEFAULT_BROKER
from muster.placement.topics import TopicRegistry, UnknownTopic
from muster.placement.view import DynamicConfigs
from muster.placement.zookeeper.client import ZooKeeperClient

LONG = "a group / with ünusual characters " * 20


def to(**wanted: str) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    """Whatever was there."""
    return lambda _: {name.replace("_", "."): value for name, value in wanted.items()}


def stored(zk: ZooKeeperClient, path: str) -> object:
    return json.loads(zk.get(path)[0])


def test_nothing_is_configured_at_first(zk: ZooKeeperClient) -> None:
    assert ConfigRegistry(zk).load() == DynamicConfigs()


def test_what_was_changed_is_found_again_where_kafka_has_it(zk: ZooKeeperClient) -> None:
    topics, configs = TopicRegistry(zk), ConfigRegistry(zk)
    topics.create("flights", 1, {"segment.ms": "5"})
    configs.change_topic("flights", lambda current: {**current, "retention.ms": "7"})
    configs.change_broker(DEFAULT_BROKER, to(group_max_size="3"))
    configs.change_broker("2", to(max_connections="9"))
    for group in ("g", LONG):
        configs.change_group(group, to(consumer_session_timeout_ms="50000"))
    assert topics.load()["flights"].config == {"segment.ms": "5", "retention.ms": "7"}
    assert configs.load() == DynamicConfigs(
        cluster={"group.max.size": "3"},
        brokers={2: {"max.connections": "9"}},
        groups={name: {"consumer.session.timeout.ms": "50000"} for name in ("g", LONG)},
    )
    assert stored(zk, "/config/brokers/<default>") == {"version": 1, "config": {"group.max.size": "3"}}
    assert stored(zk, "/config/brokers/2") == {"version": 1, "config": {"max.connections": "9"}}
    assert stored(zk, "/config/topics/flights") == {"version": 1, "config": {"retention.ms": "7", "segment.ms": "5"}}


def test_what_is_set_no_more_is_gone(zk: ZooKeeperClient) -> None:
    topics, configs = TopicRegistry(zk), ConfigRegistry(zk)
    topics.create("flights", 1, {"segment.ms": "5"})
    configs.change_topic("flights", to())
    configs.change_group("g", to(a="1"))
    configs.change_group("g", to())
    configs.change_group("never", to())
    assert (topics.load()["flights"].config, configs.load()) == ({}, DynamicConfigs())
    topics.delete("flights")
    assert zk.get_children("/config/topics") == []


def test_only_topics_that_exist_are_configured(zk: ZooKeeperClient) -> None:
    for decide in (to(), to(a="1")):
        with pytest.raises(UnknownTopic):
            ConfigRegistry(zk).change_topic("nobody", decide)


def test_changes_at_the_same_time_are_all_made(zk: ZooKeeperClient) -> None:
    configs = ConfigRegistry(zk)

    def add(number: int) -> None:
        configs.change_broker(DEFAULT_BROKER, lambda current: {**current, f"p{number}": "1"})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    assert len(configs.load().cluster) == 24


@pytest.mark.parametrize("wanted", [{}, {"c": "3"}], ids=["deleted", "set"])
def test_what_another_has_set_meanwhile_is_decided_on_again(zk: ZooKeeperClient, wanted: dict[str, str]) -> None:
    configs = ConfigRegistry(zk)
    seen: list[Mapping[str, str]] = []
    configs.change_group("g", to(a="1"))

    def decide(current: Mapping[str, str]) -> Mapping[str, str]:
        if not seen:
            ConfigRegistry(zk).change_group("g", to(b="2"))
        seen.append(current)
        return wanted

    configs.change_group("g", decide)
    assert seen == [{"a": "1"}, {"b": "2"}]
    assert configs.load().groups == ({"g": wanted} if wanted else {})


def test_a_superseded_controller_configures_nothing(zk: ZooKeeperClient) -> None:
    topics = TopicRegistry(zk)
    topics.create("flights", 1)
    old = ConfigRegistry(zk, take_controller_epoch(zk))
    new = ConfigRegistry(zk, take_controller_epoch(zk))
    change = to(a="1")
    changes: list[Callable[[ConfigRegistry], None]] = [
        lambda registry: registry.change_topic("flights", change),
        lambda registry: registry.change_broker(DEFAULT_BROKER, change),
        lambda registry: registry.change_group("g", change),
    ]
    for each in changes:
        with pytest.raises(Superseded):
            each(old)
    assert (topics.load()["flights"].config, new.load()) == ({}, DynamicConfigs())
    for each in changes:
        each(new)
    assert topics.load()["flights"].config == {"a": "1"}


def test_a_node_that_is_no_configuration_hides_no_other(zk: ZooKeeperClient) -> None:
    configs = ConfigRegistry(zk)
    configs.change_broker("1", to(a="1"))
    configs.change_group("g", to(a="1"))
    zk.create("/config/brokers/2", b"not JSON")
    zk.create("/config/groups/h", b'{"version":1,"config":{}}')
    assert configs.load() == DynamicConfigs(brokers={1: {"a": "1"}}, groups={"g": {"a": "1"}})


def test_a_node_that_is_no_configuration_is_replaced(zk: ZooKeeperClient) -> None:
    TopicRegistry(zk).create("flights", 1)
    configs = ConfigRegistry(zk)
    configs.change_broker("2", to(a="1"))
    configs.change_group("g", to(a="1"))
    changes: dict[str, Callable[[], None]] = {
        "/config/topics/flights": lambda: configs.change_topic("flights", to(b="2")),
        "/config/brokers/2": lambda: configs.change_broker("2", to(b="2")),
        "/config/groups/g": lambda: configs.change_group("g", to(b="2")),
    }
    for path, change in changes.items():
        zk.set(path, b"not JSON")
        change()
    assert TopicRegistry(zk).load()["flights"].config == {"b": "2"}
    assert configs.load() == DynamicConfigs(brokers={2: {"b": "2"}}, groups={"g": {"b": "2"}})

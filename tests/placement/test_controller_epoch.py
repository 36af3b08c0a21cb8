"""A controller with a successor changes nothing in ZooKeeper any more, and notices. With a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from muster.placement.epochs import (
    ActorEpoch,
    Superseded,
    current_state,
    next_epoch,
    take_actor_epoch,
    take_controller_epoch,
    when_superseded,
)
from muster.placement.layout import TOPICS
from muster.placement.topics import TopicExists, TopicRegistry, UnknownTopic
from muster.placement.zookeeper.client import ZooKeeperClient, connect

WAIT_S = 30


@pytest.fixture
def other(zk_hosts: str) -> Iterator[ZooKeeperClient]:
    """Yield the successor's session."""
    client = connect(zk_hosts, timeout_s=10)
    yield client
    client.shut()


CHANGES: dict[str, Callable[[TopicRegistry], object]] = {
    "create": lambda registry: registry.create("late", 1),
    "delete": lambda registry: registry.delete("flights"),
    "replication factor": lambda registry: registry.set_replication_factor("flights", 3),
    "add partitions": lambda registry: registry.add_partitions("flights", 9),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_superseded_controller_changes_nothing(zk: ZooKeeperClient, other: ZooKeeperClient, change: str) -> None:
    old = TopicRegistry(zk, take_controller_epoch(zk))
    flights = old.create("flights", 2, {"retention.ms": "1000"})
    new = TopicRegistry(other, take_controller_epoch(other))
    before = new.load()
    with pytest.raises(match="epoch 1 of /controller_epoch was followed by 2"):
        CHANGES[change](old)
    assert new.load() == before == {"flights": flights}
    CHANGES[change](new)
    assert new.load() != before


def test_what_its_successor_has_read_is_never_changed_behind_its_back(
    zk: ZooKeeperClient, other: ZooKeeperClient
) -> None:
    """The old controller creates topics continuously while the new one takes its epoch and then reads."""
    old = TopicRegistry(zk, take_controller_epoch(zk))
    started = threading.Event()

    def create_until_fenced() -> int:
        number = 0
        while True:
            try:
                old.create(f"t-{number}", 1)
            except Superseded:
                return number
            number += 1
            if number == 5:
                started.set()

    with ThreadPoolExecutor(1) as pool:
        created = pool.submit(create_until_fenced)
        assert started.wait(WAIT_S)
        new = TopicRegistry(other, take_controller_epoch(other))
        read = new.load()
        assert len(read) == created.result(WAIT_S) >= 5
    assert new.load() == read
    assert other.get(TOPICS)[1].version == len(read)


def test_refusals_keep_their_own_errors(zk: ZooKeeperClient) -> None:
    registry = TopicRegistry(zk, take_controller_epoch(zk))
    registry.create("flights", 1)
    with pytest.raises(TopicExists):
        registry.create("flights", 1)
    with pytest.raises(UnknownTopic):
        registry.add_partitions("other", 2)
    registry.delete("flights")
    assert registry.load() == {}


def test_a_controller_hears_of_its_successor(zk: ZooKeeperClient, other: ZooKeeperClient) -> None:
    heard = threading.Event()
    mine = take_controller_epoch(zk)
    when_superseded(zk, mine, heard.set)
    assert not heard.is_set()
    assert take_controller_epoch(other) == ActorEpoch(mine.path, mine.epoch + 1, mine.zk_version + 1)
    assert heard.wait(WAIT_S)


def test_a_controller_that_watches_late_hears_at_once(zk: ZooKeeperClient, other: ZooKeeperClient) -> None:
    heard = threading.Event()
    mine = take_controller_epoch(zk)
    take_controller_epoch(other)
    when_superseded(zk, mine, heard.set)
    assert heard.wait(WAIT_S)


def test_a_superseded_actor_gets_no_leader_epoch(zk: ZooKeeperClient, other: ZooKeeperClient) -> None:
    TopicRegistry(zk).create("flights", 2)
    old = take_actor_epoch(zk, "log-0")
    assert next_epoch(zk, "flights", 0, "log-0", holder=old) == 0
    unrelated = take_actor_epoch(other, "log-1")
    assert next_epoch(zk, "flights", 0, "log-0", holder=old) == 1
    new = take_actor_epoch(other, "log-0")
    for partition in (0, 1):
        with pytest.raises(Superseded, match="epoch 1 of /actor_epochs/log-0 was followed by 2"):
            next_epoch(zk, "flights", partition, "log-0", holder=old)
    assert [current_state(zk, "flights", partition).leader_epoch for partition in (0, 1)] == [1, -1]
    assert next_epoch(other, "flights", 0, "log-0", holder=new) == 2
    assert next_epoch(other, "flights", 1, "log-1", holder=unrelated) == 0

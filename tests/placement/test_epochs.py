"""Concurrent requests for epochs and producer ids, in a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from muster.placement import epochs
from muster.placement.epochs import (
    MAX_PRODUCER_ID,
    ProducerIdsExhausted,
    UnknownPartition,
    current_state,
    next_epoch,
    next_producer_id_block,
    take_controller_epoch,
)
from muster.placement.layout import PRODUCER_ID_BLOCK, encode_producer_id_block
from muster.placement.topics import TopicRegistry
from muster.placement.zookeeper.client import ZooKeeperClient, connect

CALLERS, EACH = 6, 15


@pytest.fixture
def clients(zk_hosts: str) -> Iterator[list[ZooKeeperClient]]:
    """One session each, as for that many actors."""
    connected = [connect(zk_hosts, timeout_s=10) for _ in range(CALLERS)]
    yield connected
    for client in connected:
        client.shut()


def test_no_epoch_is_given_twice_and_each_caller_sees_them_grow(
    zk: ZooKeeperClient, clients: list[ZooKeeperClient]
) -> None:
    TopicRegistry(zk).create("__consumer_offsets", 50, internal=True)

    def take(caller: int) -> list[int]:
        return [next_epoch(clients[caller], "__consumer_offsets", 7, f"offsets-7/{caller}") for _ in range(EACH)]

    with ThreadPoolExecutor(CALLERS) as pool:
        taken = list(pool.map(take, range(CALLERS)))
    assert sorted(epoch for epochs in taken for epoch in epochs) == list(range(CALLERS * EACH))
    assert all(epochs == sorted(epochs) for epochs in taken)
    last = next(caller for caller, epochs in enumerate(taken) if epochs[-1] == CALLERS * EACH - 1)
    state = current_state(zk, "__consumer_offsets", 7)
    assert (state.leader_epoch, state.owner) == (CALLERS * EACH - 1, f"offsets-7/{last}")


def test_partitions_count_by_themselves(zk: ZooKeeperClient) -> None:
    TopicRegistry(zk).create("flights", 2)
    assert current_state(zk, "flights", 1).leader_epoch == -1
    assert [next_epoch(zk, "flights", p, "log-0") for p in (0, 0, 1)] == [0, 1, 0]


@pytest.mark.parametrize(("topic", "partition"), [("flights", 2), ("flights", -1), ("other", 0)])
def test_what_does_not_exist_has_no_epoch(zk: ZooKeeperClient, topic: str, partition: int) -> None:
    TopicRegistry(zk).create("flights", 2)
    with pytest.raises(UnknownPartition):
        next_epoch(zk, topic, partition, "log-0")
    with pytest.raises(UnknownPartition):
        current_state(zk, topic, partition)
    assert not zk.exists("/brokers/topics/other")


def test_a_topic_that_is_deleted_meanwhile_does_not_return(
    zk: ZooKeeperClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node, without data, would be no topic, and nothing could load the topics of the cluster any more."""
    registry = TopicRegistry(zk)
    registry.create("flights", 1)
    require = epochs._require

    def require_and_delete(zk: ZooKeeperClient, topic: str, partition: int) -> None:
        require(zk, topic, partition)
        registry.delete(topic)

    monkeypatch.setattr(epochs, "_require", require_and_delete)
    with pytest.raises(UnknownPartition):
        next_epoch(zk, "flights", 0, "log-0")
    assert registry.load() == {}


def test_controller_epochs_start_at_one_and_grow(zk: ZooKeeperClient, clients: list[ZooKeeperClient]) -> None:
    with ThreadPoolExecutor(CALLERS) as pool:
        taken = [each.epoch for each in pool.map(take_controller_epoch, clients)]
    assert sorted(taken) == list(range(1, CALLERS + 1))
    assert zk.get("/controller_epoch")[0] == str(CALLERS).encode()


def test_producer_id_blocks_never_overlap(clients: list[ZooKeeperClient]) -> None:
    with ThreadPoolExecutor(CALLERS) as pool:
        blocks = list(pool.map(lambda client: next_producer_id_block(client, 10), clients))
    assert sorted(one for block in blocks for one in block) == list(range(10 * CALLERS))


def test_producer_ids_end_with_an_error_not_with_a_wrap(zk: ZooKeeperClient) -> None:
    zk.create(PRODUCER_ID_BLOCK, encode_producer_id_block(range(MAX_PRODUCER_ID - 5), -1))
    assert list(next_producer_id_block(zk, 5))[-1] == MAX_PRODUCER_ID - 1
    with pytest.raises(ProducerIdsExhausted):
        next_producer_id_block(zk, 2)

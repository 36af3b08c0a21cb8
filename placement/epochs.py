"""Numbers that only grow, whoever asks and however many ask at once: epochs and producer ids.

Each is one ZooKeeper node, changed by compare-and-set on its version. A call whose answer was lost may have
used up a number; no number is ever given twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from placement.layout import (
    CONTROLLER_EPOCH,
    PRODUCER_ID_BLOCK,
    Malformed,
    PartitionState,
    decode_producer_id_block,
    decode_topic,
    encode_producer_id_block,
    partition_state_path,
    topic_path,
)
from placement.zookeeper import ZooKeeperClient

MAX_PRODUCER_ID = 2**63 - 1


class UnknownPartition(LookupError):
    """The topic does not exist, or has no such partition."""


class ProducerIdsExhausted(RuntimeError):
    """All 2**63 producer ids were given out."""


def next_epoch(zk: ZooKeeperClient, topic: str, partition: int, owner: str, *, controller_epoch: int = 0) -> int:
    """Take the partition's next leader epoch for ``owner``; whoever had an earlier one may write no more.

    The first epoch is 0. UnknownPartition; ZooKeeperUnreachable.
    """
    _require(zk, topic, partition)

    def successor(data: bytes | None) -> bytes:
        state = PartitionState() if data is None else PartitionState.decode(data)
        taken = dataclasses.replace(
            state, leader_epoch=state.leader_epoch + 1, controller_epoch=controller_epoch, owner=owner
        )
        return taken.encode()

    return PartitionState.decode(_advance(zk, partition_state_path(topic, partition), successor)).leader_epoch


def current_state(zk: ZooKeeperClient, topic: str, partition: int) -> PartitionState:
    """Who has the partition's newest epoch; the default state if nobody took one yet. UnknownPartition."""
    try:
        return PartitionState.decode(zk.ask(zk.get_async, partition_state_path(topic, partition))[0])
    except NoNodeError:
        _require(zk, topic, partition)
        return PartitionState()


def next_controller_epoch(zk: ZooKeeperClient) -> int:
    """Take the next epoch of the controller; the first is 1, as in Kafka. ZooKeeperUnreachable."""

    def successor(data: bytes | None) -> bytes:
        try:
            return str(int(data or b"0") + 1).encode()
        except ValueError as error:
            raise Malformed(f"not a controller epoch: {data!r}") from error

    return int(_advance(zk, CONTROLLER_EPOCH, successor))


def next_producer_id_block(zk: ZooKeeperClient, size: int = 1000, *, broker_id: int = -1) -> range:
    """The next ``size`` producer ids, for the caller alone. ProducerIdsExhausted; ZooKeeperUnreachable."""
    if size < 1:
        raise ValueError(f"a block of {size} producer ids")

    def successor(data: bytes | None) -> bytes:
        start = 0 if data is None else decode_producer_id_block(data).stop
        if start + size - 1 > MAX_PRODUCER_ID:
            raise ProducerIdsExhausted(f"no {size} producer ids are left after {start - 1}")
        return encode_producer_id_block(range(start, start + size), broker_id)

    return decode_producer_id_block(_advance(zk, PRODUCER_ID_BLOCK, successor))


def _advance(zk: ZooKeeperClient, path: str, successor: Callable[[bytes | None], bytes]) -> bytes:
    """Replace the node's data (None: no node yet) by its successor; returns what this call wrote."""
    while True:
        try:
            data, stat = zk.ask(zk.get_async, path)
        except NoNodeError:
            data, stat = None, None
        following = successor(data)
        try:
            if stat is None:
                zk.ask(zk.create_async, path, following, makepath=True)
            else:
                zk.ask(zk.set_async, path, following, version=stat.version)
        except (BadVersionError, NodeExistsError, NoNodeError):
            continue
        return following


def _require(zk: ZooKeeperClient, topic: str, partition: int) -> None:
    try:
        data, _ = zk.ask(zk.get_async, topic_path(topic))
    except NoNodeError:
        raise UnknownPartition(f"there is no topic {topic}") from None
    if not 0 <= partition < decode_topic(topic, data, {}).partitions:
        raise UnknownPartition(f"topic {topic} has no partition {partition}")

"""Numbers that only grow, whoever asks and however many ask at once: epochs and producer ids.

Each is one ZooKeeper node, changed by compare-and-set on its version. A call whose answer was lost may have
used up a number; no number is ever given twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.protocol.states import ZnodeStat

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


@dataclass(frozen=True, slots=True)
class ControllerEpoch:
    """What one controller took for itself. As in Kafka (KAFKA-6082), ``zk_version`` fences what it changes."""

    epoch: int
    zk_version: int
    """Of the node ``/controller_epoch`` that holds the epoch: another one means that a successor has begun."""


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

    taken, _ = _advance(zk, partition_state_path(topic, partition), successor)
    return PartitionState.decode(taken).leader_epoch


def current_state(zk: ZooKeeperClient, topic: str, partition: int) -> PartitionState:
    """Who has the partition's newest epoch; the default state if nobody took one yet. UnknownPartition."""
    try:
        return PartitionState.decode(zk.ask(zk.get_async, partition_state_path(topic, partition))[0])
    except NoNodeError:
        _require(zk, topic, partition)
        return PartitionState()


def next_controller_epoch(zk: ZooKeeperClient) -> int:
    """As :func:`take_controller_epoch`, for who changes nothing."""
    return take_controller_epoch(zk).epoch


def take_controller_epoch(zk: ZooKeeperClient) -> ControllerEpoch:
    """Take the next epoch of the controller; the first is 1, as in Kafka. ZooKeeperUnreachable."""

    def successor(data: bytes | None) -> bytes:
        try:
            return str(int(data or b"0") + 1).encode()
        except ValueError as error:
            raise Malformed(f"not a controller epoch: {data!r}") from error

    data, zk_version = _advance(zk, CONTROLLER_EPOCH, successor)
    return ControllerEpoch(int(data), zk_version)


def when_superseded(zk: ZooKeeperClient, mine: ControllerEpoch, act: Callable[[], None]) -> None:
    """Have ``act`` called, on a thread of kazoo's, once another controller has taken an epoch after ``mine``.

    It may be the moment of this call, or when ZooKeeper is back after an outage. Blocks on ZooKeeper.
    """

    def look(_: bytes | None, stat: ZnodeStat | None) -> bool:
        superseded = stat is not None and stat.version != mine.zk_version
        if superseded:
            act()
        return not superseded

    zk.DataWatch(CONTROLLER_EPOCH, look)


def next_producer_id_block(zk: ZooKeeperClient, size: int = 1000, *, broker_id: int = -1) -> range:
    """The next ``size`` producer ids, for the caller alone. ProducerIdsExhausted; ZooKeeperUnreachable."""
    if size < 1:
        raise ValueError(f"a block of {size} producer ids")

    def successor(data: bytes | None) -> bytes:
        start = 0 if data is None else decode_producer_id_block(data).stop
        if start + size - 1 > MAX_PRODUCER_ID:
            raise ProducerIdsExhausted(f"no {size} producer ids are left after {start - 1}")
        return encode_producer_id_block(range(start, start + size), broker_id)

    block, _ = _advance(zk, PRODUCER_ID_BLOCK, successor)
    return decode_producer_id_block(block)


def _advance(zk: ZooKeeperClient, path: str, successor: Callable[[bytes | None], bytes]) -> tuple[bytes, int]:
    """Replace the node's data (None: no node yet) by its successor; what this call wrote, and its version."""
    while True:
        try:
            data, stat = zk.ask(zk.get_async, path)
        except NoNodeError:
            data, stat = None, None
        following = successor(data)
        try:
            if stat is None:
                zk.ask(zk.create_async, path, following, makepath=True)
                return following, 0
            return following, zk.ask(zk.set_async, path, following, version=stat.version).version
        except (BadVersionError, NodeExistsError, NoNodeError):
            continue


def _require(zk: ZooKeeperClient, topic: str, partition: int) -> None:
    try:
        data, _ = zk.ask(zk.get_async, topic_path(topic))
    except NoNodeError:
        raise UnknownPartition(f"there is no topic {topic}") from None
    if not 0 <= partition < decode_topic(topic, data, {}).partitions:
        raise UnknownPartition(f"topic {topic} has no partition {partition}")

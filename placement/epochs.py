"""Numbers that only increase, for any number of concurrent callers: epochs and producer ids.

Each is one ZooKeeper node, changed by compare-and-set on its version. A call whose response was lost may have
used up a number; no number is ever given out twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError
from kazoo.protocol.states import ZnodeStat

from muster.placement.layout import (
    CONTROLLER_EPOCH,
    PRODUCER_ID_BLOCK,
    Malformed,
    PartitionState,
    actor_epoch_path,
    decode_producer_id_block,
    decode_topic,
    encode_producer_id_block,
    partition_state_path,
    topic_path,
)
from muster.placement.zookeeper.client import ZooKeeperClient

MAX_PRODUCER_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ActorEpoch:
    """The epoch that one process took as the only one of its name, until another process takes the next.

    As in Kafka (KAFKA-6082), the version of the node fences: a transaction that checks it fails once there is a
    successor, so what the successor has read cannot be changed by its predecessor.
    """

    path: str
    epoch: int
    zk_version: int

    @property
    def check(self) -> tuple[Any, ...]:
        """The operation for a transaction; see ``ZooKeeperClient.commit``."""
        return "check", self.path, self.zk_version


class Superseded(RuntimeError):
    """Another process took the next epoch. The requested change was not made, or was made just before that."""


class UnknownPartition(LookupError):
    """The topic does not exist, or has no such partition."""


class ProducerIdsExhausted(RuntimeError):
    """All 2**63 producer ids have been given out."""


def next_epoch(zk: ZooKeeperClient, topic: str, partition: int, owner: str, *, holder: ActorEpoch | None = None) -> int:
    """Take the partition's next leader epoch for ``owner``; holders of earlier epochs may no longer write.

    The first epoch is 0. With ``holder``, the caller must still hold that epoch. Raises UnknownPartition, Superseded or
    ZooKeeperUnreachable.
    """
    _require(zk, topic, partition)
    controller_epoch = holder.epoch if holder is not None and holder.path == CONTROLLER_EPOCH else 0

    def successor(data: bytes | None) -> bytes:
        state = PartitionState() if data is None else PartitionState.decode(data)
        taken = dataclasses.replace(
            state, leader_epoch=state.leader_epoch + 1, controller_epoch=controller_epoch, owner=owner
        )
        return taken.encode()

    path = partition_state_path(topic, partition)
    try:
        taken, _ = _advance(zk, path, successor, holder, below=topic_path(topic))
    except NoNodeError:
        raise UnknownPartition(f"topic {topic} has been deleted") from None
    return PartitionState.decode(taken).leader_epoch


def current_state(zk: ZooKeeperClient, topic: str, partition: int) -> PartitionState:
    """Return the state with the partition's newest epoch; the default state if no epoch was taken yet.

    Raises UnknownPartition.
    """
    try:
        return PartitionState.decode(zk.call(zk.get_async, partition_state_path(topic, partition))[0])
    except NoNodeError:
        _require(zk, topic, partition)
        return PartitionState()


def take_controller_epoch(zk: ZooKeeperClient) -> ActorEpoch:
    """Become the controller; the first epoch is 1, as in Kafka. Raises ZooKeeperUnreachable."""
    return _take(zk, CONTROLLER_EPOCH)


def take_actor_epoch(zk: ZooKeeperClient, name: str, *, holder: ActorEpoch | None = None) -> ActorEpoch:
    """Take the next epoch of the actor of that name; the first is 1. Raises ZooKeeperUnreachable.

    With ``holder``, the caller must still hold that epoch of its own. Raises Superseded.
    """
    return _take(zk, actor_epoch_path(name), holder)


def actor_epoch(zk: ZooKeeperClient, name: str, epoch: int) -> ActorEpoch:
    """Return that epoch of the actor, taken for the caller by another process.

    Raises Superseded or ZooKeeperUnreachable.
    """
    path = actor_epoch_path(name)
    data, stat = zk.call(zk.get_async, path)
    if data != str(epoch).encode():
        raise Superseded(f"epoch {epoch} of {path} was followed by {data.decode()}")
    return ActorEpoch(path, epoch, stat.version)


def _take(zk: ZooKeeperClient, path: str, holder: ActorEpoch | None = None) -> ActorEpoch:
    def successor(data: bytes | None) -> bytes:
        try:
            return str(int(data or b"0") + 1).encode()
        except ValueError as error:
            raise Malformed(f"not an epoch: {data!r}") from error

    data, zk_version = _advance(zk, path, successor, holder)
    return ActorEpoch(path, int(data), zk_version)


def check_holder(zk: ZooKeeperClient, holder: ActorEpoch) -> None:
    """Raise Superseded if there is a successor; ZooKeeperUnreachable."""
    data, stat = zk.call(zk.get_async, holder.path)
    if stat.version != holder.zk_version:
        raise Superseded(f"epoch {holder.epoch} of {holder.path} was followed by {data.decode()}")


def commit_as(zk: ZooKeeperClient, holder: ActorEpoch | None, operations: list[tuple[Any, ...]]) -> None:
    """Like ``ZooKeeperClient.commit``, on behalf of the holder, if given. Raises Superseded."""
    if holder is None:
        zk.commit(operations)
        return
    try:
        zk.commit([holder.check, *operations])
    except (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError):
        check_holder(zk, holder)
        raise


def when_superseded(zk: ZooKeeperClient, mine: ActorEpoch, act: Callable[[], None]) -> None:
    """Call ``act`` once there is a successor, on one of kazoo's threads.

    It may be called during this call, or when ZooKeeper is available again after an outage. Blocks on ZooKeeper.
    """

    def look(_: bytes | None, stat: ZnodeStat | None) -> bool:
        superseded = stat is not None and stat.version != mine.zk_version
        if superseded:
            act()
        return not superseded

    zk.DataWatch(mine.path, look)


def next_producer_id_block(zk: ZooKeeperClient, size: int = 1000, *, broker_id: int = -1) -> range:
    """Return the next ``size`` producer ids, for this caller alone.

    Raises ProducerIdsExhausted or ZooKeeperUnreachable.
    """
    if size < 1:
        raise ValueError(f"a block of {size} producer ids")

    def successor(data: bytes | None) -> bytes:
        start = 0 if data is None else decode_producer_id_block(data).stop
        if start + size - 1 > MAX_PRODUCER_ID:
            raise ProducerIdsExhausted(f"no {size} producer ids are left after {start - 1}")
        return encode_producer_id_block(range(start, start + size), broker_id)

    block, _ = _advance(zk, PRODUCER_ID_BLOCK, successor)
    return decode_producer_id_block(block)


def _advance(
    zk: ZooKeeperClient,
    path: str,
    successor: Callable[[bytes | None], bytes],
    holder: ActorEpoch | None = None,
    *,
    below: str | None = None,
) -> tuple[bytes, int]:
    """Replace the node's data (None: no node yet) by its successor. Returns the data written, and its version.

    Missing parents are created; with ``below``, not that node or those above it: NoNodeError if it does not exist.
    """
    while True:
        try:
            data, stat = zk.call(zk.get_async, path)
        except NoNodeError:
            data, stat = None, None
            _create_parents(zk, path, below)
        following = successor(data)
        change = ("create", path, following) if stat is None else ("set_data", path, following, stat.version)
        try:
            zk.commit([change] if holder is None else [holder.check, change])
        except (BadVersionError, NodeExistsError, NoNodeError):
            if holder is not None:
                check_holder(zk, holder)
            continue
        return following, 0 if stat is None else stat.version + 1


def _create_parents(zk: ZooKeeperClient, path: str, below: str | None) -> None:
    node, _, _ = path.rpartition("/")
    if below is None:
        zk.call(zk.ensure_path_async, node)
        return
    created = below
    for name in node.removeprefix(f"{below}/").split("/"):
        created = f"{created}/{name}"
        with suppress(NodeExistsError):
            zk.call(zk.create_async, created)


def _require(zk: ZooKeeperClient, topic: str, partition: int) -> None:
    try:
        data, _ = zk.call(zk.get_async, topic_path(topic))
    except NoNodeError:
        raise UnknownPartition(f"there is no topic {topic}") from None
    if not 0 <= partition < decode_topic(topic, data, {}).partitions:
        raise UnknownPartition(f"topic {topic} has no partition {partition}")

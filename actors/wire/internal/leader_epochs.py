"""EPOCHS: the leader epochs of an actor's open logs, which it sends to every gateway without a request.

A gateway gets all of them when it connects, and each when its log is opened: before any response from that log.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from muster.actors.wire.internal.envelope import Kind

_EPOCH = struct.Struct(">16sii")


class LeaderEpoch(NamedTuple):
    """The leader epoch of a partition."""

    topic_id: UUID
    partition: int
    epoch: int


OnLeaderEpochs = Callable[[list[LeaderEpoch]], None]


def write_epochs(epochs: Iterable[LeaderEpoch]) -> bytes:
    """Return an EPOCHS."""
    packed = (_EPOCH.pack(topic_id.bytes, partition, epoch) for topic_id, partition, epoch in epochs)
    return b"".join((bytes([Kind.EPOCHS]), *packed))


def read_epochs(message: bytes) -> list[LeaderEpoch]:
    """Return the epochs of an EPOCHS. Raises ValueError if it is cut off."""
    try:
        found = _EPOCH.iter_unpack(memoryview(message)[1:])
        return [LeaderEpoch(UUID(bytes=topic_id), partition, epoch) for topic_id, partition, epoch in found]
    except struct.error as error:
        raise ValueError(f"an EPOCHS: {error}") from error

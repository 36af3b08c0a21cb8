"""EPOCHS: the leader epochs of an actor's open logs, which it sends to every gateway without a request.

A gateway gets all of them when it connects, and each when its log is opened: before any response from that log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from msgspec.msgpack import Decoder

from muster.actors.wire.internal.envelope import Kind, pack


class LeaderEpoch(NamedTuple):
    """The leader epoch of a partition."""

    topic_id: UUID
    partition: int
    epoch: int


OnLeaderEpochs = Callable[[list[LeaderEpoch]], None]


_EPOCHS = Decoder(list[LeaderEpoch])


def write_epochs(epochs: Iterable[LeaderEpoch]) -> bytes:
    """Return an EPOCHS."""
    return bytes([Kind.EPOCHS]) + pack([*epochs])


def read_epochs(message: bytes) -> list[LeaderEpoch]:
    """Return the epochs of an EPOCHS. Raises ValueError if it is none."""
    return _EPOCHS.decode(memoryview(message)[1:])

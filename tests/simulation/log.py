"""The partition's log: atomic batches in order, slow and fallible, with a tail that a crash may tear."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from muster.actors.group.codec.records import (
    GroupKey,
    GroupMetadata,
    RecordKey,
    UnknownKey,
    Value,
    decode_key,
    decode_value,
)
from muster.actors.group.types import GroupId, Record, WriteId


@dataclass(frozen=True, slots=True)
class Batch:
    write: WriteId
    records: tuple[Record, ...]


class SimulatedLog:
    """What is durable, what is in flight, and the last value of every key in either state.

    The last values are kept as bytes: the world must not use the core's own replay to check replay.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.pending: list[Batch] = []
        self._doubtful: list[Batch] = []
        self.durable: dict[bytes, bytes] = {}
        self.live: dict[bytes, bytes] = {}
        self.deletions: Counter[GroupId] = Counter()
        """Durable tombstones of the group itself: afterwards, a group of the same name is a different one."""

    def begin(self, write: WriteId, records: tuple[Record, ...]) -> None:
        self.pending.append(Batch(write, records))
        _apply(self.live, records)

    def finish(self, write: WriteId) -> None:
        """That batch and all before it become durable."""
        while self.pending and self.pending[0].write <= write:
            self._store(self.pending.pop(0).records)

    def refuse(self, write: WriteId) -> None:
        """That batch, which is the last one, is not written at all."""
        assert self.pending[-1].write == write
        self.pending.pop()
        self._forget_pending()

    def doubt(self, write: WriteId) -> None:
        """It is unknown whether that batch and all after it are written; their writer gives up on them."""
        self._doubtful = [batch for batch in self.pending if batch.write >= write]
        self.pending = [batch for batch in self.pending if batch.write < write]
        self._forget_pending()

    def tear(self, chance: random.Random) -> int:
        """The writer dies: a part of the writes in flight is in the log. Returns the number of lost batches.

        A batch is atomic, except that tombstones may have been split over several.
        """
        tail = self.pending + self._doubtful
        survivors = chance.randint(0, len(tail))
        for batch in tail[:survivors]:
            self._store(batch.records)
        lost = tail[survivors:]
        if lost and all(record.value is None for record in lost[0].records):
            self._store(lost[0].records[: chance.randint(0, len(lost[0].records))])
        self.pending, self._doubtful = [], []
        self._forget_pending()
        return len(lost)

    def group(self, group: GroupId) -> GroupMetadata | None:
        """The group's record in the durable log."""
        return _group(self.durable, group)

    def live_group(self, group: GroupId) -> GroupMetadata | None:
        """The group's record, if all writes in flight become durable."""
        return _group(self.live, group)

    def _store(self, records: tuple[Record, ...]) -> None:
        self.records += records
        _apply(self.durable, records)
        for record in records:
            key = decode_key(record.key)
            if record.value is None and isinstance(key, GroupKey):
                self.deletions[key.group] += 1

    def _forget_pending(self) -> None:
        self.live = dict(self.durable)
        for batch in self.pending:
            _apply(self.live, batch.records)


def _apply(values: dict[bytes, bytes], records: tuple[Record, ...]) -> None:
    for record in records:
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value


def _group(values: dict[bytes, bytes], group: GroupId) -> GroupMetadata | None:
    name = group.encode()
    key = b"\x00\x02" + len(name).to_bytes(2, "big") + name
    if key not in values:
        return None
    value = decoded(key, values[key])[1]
    assert isinstance(value, GroupMetadata)
    return value


@lru_cache(maxsize=4_096)
def decoded(key: bytes, value: bytes) -> tuple[RecordKey, Value]:
    """Key and value of a record other than a tombstone."""
    read = decode_key(key)
    assert not isinstance(read, UnknownKey)
    return read, decode_value(read, value)

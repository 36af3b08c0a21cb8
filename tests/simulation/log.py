"""The partition's log: atomic batches in order, slow and fallible, with a tail that a crash may tear."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
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
from muster.actors.group.types import GroupId, Outcome, Record, TxnMarker, WriteId
from tests.group.transactions.logged import InTransaction, Logged, logged


@dataclass(frozen=True, slots=True)
class Batch:
    write: WriteId
    entries: tuple[Logged, ...]
    """Records, records in a transaction, or one marker."""

    @property
    def is_divisible(self) -> bool:
        """Tombstones of one write may be in several batches of the log."""
        return all(isinstance(entry, Record) and entry.value is None for entry in self.entries)


class Values:
    """The last value of every key, by Kafka's rule: a COMMIT sets a value if its record has a higher offset."""

    def __init__(self) -> None:
        self.last: dict[bytes, bytes] = {}
        self.pending: dict[int, dict[bytes, tuple[int, bytes]]] = {}
        """Offset and value for each producer whose transaction has no marker yet."""
        self.committed: list[tuple[bytes, bytes]] = []
        """Records that the last marker has committed."""
        self._offsets: dict[bytes, int] = {}
        self._end = 0

    def copy(self) -> Values:
        other = Values()
        other.last, other._offsets, other._end = dict(self.last), dict(self._offsets), self._end
        other.pending = {producer_id: dict(records) for producer_id, records in self.pending.items()}
        return other

    def apply(self, entries: Iterable[Logged]) -> None:
        for entry in entries:
            match entry:
                case TxnMarker():
                    self._end_transaction(entry)
                case InTransaction():
                    pending = self.pending.setdefault(entry.producer.producer_id, {})
                    pending[entry.record.key] = (self._end, entry.record.value or b"")
                case Record():
                    self._set(entry.key, self._end, entry.value)
            self._end += 1

    def pending_keys(self) -> set[bytes]:
        return {key for records in self.pending.values() for key in records}

    def _end_transaction(self, marker: TxnMarker) -> None:
        self.committed = []
        for key, (offset, value) in self.pending.pop(marker.producer.producer_id, {}).items():
            if marker.commit and offset > self._offsets.get(key, -1):
                self._set(key, offset, value)
                self.committed.append((key, value))

    def _set(self, key: bytes, offset: int, value: bytes | None) -> None:
        if value is not None:
            self.last[key], self._offsets[key] = value, offset
            return
        self.last.pop(key, None)
        self._offsets.pop(key, None)
        for records in self.pending.values():
            records.pop(key, None)


class SimulatedLog:
    """Durable batches, batches in flight, and the last value of every key in either state.

    The last values are kept as bytes: the world must not use the core's own replay to check replay.
    """

    def __init__(self) -> None:
        self.entries: list[Logged] = []
        self.pending: list[Batch] = []
        self._doubtful: list[Batch] = []
        self.durable = Values()
        self.live = Values()
        self.deletions: Counter[GroupId] = Counter()
        """Durable tombstones of the group itself: afterwards, a group of the same name is a different one."""

    def begin(self, write: WriteId, outcome: Outcome) -> None:
        batch = Batch(write, tuple(logged(outcome)))
        self.pending.append(batch)
        self.live.apply(batch.entries)

    def finish(self, write: WriteId) -> None:
        """Make that batch and all before it durable."""
        while self.pending and self.pending[0].write <= write:
            self._store(self.pending.pop(0).entries)

    def refuse(self, write: WriteId) -> None:
        """Drop that batch, which is the last one: it is not written at all."""
        assert self.pending[-1].write == write
        self.pending.pop()
        self._forget_pending()

    def doubt(self, write: WriteId) -> None:
        """Leave open whether that batch and all after it are written; their writer gives up on them."""
        self._doubtful = [batch for batch in self.pending if batch.write >= write]
        self.pending = [batch for batch in self.pending if batch.write < write]
        self._forget_pending()

    def tear(self, chance: random.Random) -> int:
        """End the writer: a part of the writes in flight is in the log. Returns the number of lost batches.

        A batch is atomic, except that tombstones may have been split over several.
        """
        tail = self.pending + self._doubtful
        survivors = chance.randint(0, len(tail))
        for batch in tail[:survivors]:
            self._store(batch.entries)
        lost = tail[survivors:]
        if lost and lost[0].is_divisible:
            self._store(lost[0].entries[: chance.randint(0, len(lost[0].entries))])
        self.pending, self._doubtful = [], []
        self._forget_pending()
        return len(lost)

    def group(self, group: GroupId) -> GroupMetadata | None:
        """Return the group's record in the durable log."""
        return _group(self.durable.last, group)

    def live_group(self, group: GroupId) -> GroupMetadata | None:
        """Return the group's record, if all writes in flight become durable."""
        return _group(self.live.last, group)

    def _store(self, entries: tuple[Logged, ...]) -> None:
        self.entries += entries
        self.durable.apply(entries)
        for entry in entries:
            if isinstance(entry, Record) and entry.value is None and isinstance(key := decode_key(entry.key), GroupKey):
                self.deletions[key.group] += 1

    def _forget_pending(self) -> None:
        self.live = self.durable.copy()
        for batch in self.pending:
            self.live.apply(batch.entries)


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

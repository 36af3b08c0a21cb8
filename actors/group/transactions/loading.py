"""What a fully compacted log would hold, from the records of a log that is compacted only in part.

Loading a coordinator from that gives the same state as from the whole log: a group's offsets are written again and
again, and only the last ones count. An offset in a transaction counts once the transaction's marker has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Generic, Protocol, TypeVar


class Entry(Protocol):
    """A record and its offset in the log."""

    @property
    def offset(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...


E = TypeVar("E", bound=Entry)


class LatestRecords(Generic[E]):
    """Takes a log's records and markers in log order."""

    def __init__(self) -> None:
        self._latest: dict[bytes, E] = {}
        self._pending: dict[int, dict[bytes, E]] = {}

    def add(self, entries: Iterable[E]) -> int:
        """Records outside transactions. Returns how many."""
        count = 0
        for entry in entries:
            key = entry.key or b""
            self._latest[key] = entry
            if self._pending and entry.value is None:  # a tombstone removes pending offsets, too
                for records in self._pending.values():
                    records.pop(key, None)
            count += 1
        return count

    def add_pending(self, producer_id: int, entries: Iterable[E]) -> int:
        """Records in a transaction of that producer. Returns how many."""
        pending = self._pending.setdefault(producer_id, {})
        count = 0
        for entry in entries:
            pending[entry.key or b""] = entry
            count += 1
        return count

    def end(self, producer_id: int, *, commit: bool) -> None:
        """A marker. Of what it commits, a record that a later one has replaced meanwhile does not count."""
        for key, entry in self._pending.pop(producer_id, {}).items():
            known = self._latest.get(key)
            if commit and (known is None or known.offset < entry.offset):
                self._latest[key] = entry

    def entries(self) -> Iterator[tuple[E, int | None]]:
        """What counts, with the producer id if it is pending. Pending records are in their places among the others."""
        pending = [(entry.offset, entry, producer) for producer, own in self._pending.items() for entry in own.values()]
        if not pending:
            for entry in self._latest.values():
                yield entry, None
            return
        settled = [(entry.offset, entry, None) for entry in self._latest.values()]
        for _, entry, producer_id in sorted([*settled, *pending], key=itemgetter(0)):
            yield entry, producer_id

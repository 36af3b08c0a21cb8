"""Latest records of a log, for loading: the content of a fully compacted log, from one compacted only in part.

Loading a coordinator from them gives the same state as from the whole log: a group's offsets are written again and
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
        """Add records outside transactions. Returns how many."""
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
        """Add records in a transaction of that producer. Returns how many."""
        pending = self._pending.setdefault(producer_id, {})
        count = 0
        for entry in entries:
            pending[entry.key or b""] = entry
            count += 1
        return count

    def end(self, producer_id: int, *, commit: bool) -> None:
        """Apply a marker. A record of the transaction that a later one has replaced meanwhile does not count."""
        for key, entry in self._pending.pop(producer_id, {}).items():
            known = self._latest.get(key)
            if commit and (known is None or known.offset < entry.offset):
                self._latest[key] = entry

    def entries(self) -> Iterator[tuple[E, int | None]]:
        """Yield the entries that count, pending ones with their producer id, in the order of their records."""
        pending = [(entry.offset, entry, producer) for producer, own in self._pending.items() for entry in own.values()]
        if not pending:
            for entry in self._latest.values():
                yield entry, None
            return
        settled = [(entry.offset, entry, None) for entry in self._latest.values()]
        for _, entry, producer_id in sorted([*settled, *pending], key=itemgetter(0)):
            yield entry, producer_id

"""What a fully compacted log would hold, from the records of a log that is compacted only in part.

Loading a coordinator from that gives the same state as from the whole log: a group's offsets are written again and
again, and only the last ones count. An offset in a transaction counts once the transaction's marker has come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from muster.actors.group.types import Record


class LoggedRecord(NamedTuple):
    offset: int
    record: Record
    timestamp_ms: int
    producer_id: int | None = None
    """Of a transaction that no marker has ended; else None."""


class LatestRecords:
    """Takes a log's records and markers in log order."""

    def __init__(self) -> None:
        self._latest: dict[bytes, LoggedRecord] = {}
        self._pending: dict[int, dict[bytes, LoggedRecord]] = {}

    def add(self, entry: LoggedRecord) -> None:
        """A record; with a producer id one in a transaction."""
        key, value = entry.record
        if entry.producer_id is not None and value is not None:
            self._pending.setdefault(entry.producer_id, {})[key] = entry
            return
        self._latest[key] = entry._replace(producer_id=None)
        if value is None:  # a tombstone removes pending offsets, too
            for records in self._pending.values():
                records.pop(key, None)

    def end(self, producer_id: int, *, commit: bool) -> None:
        """A marker. Of what it commits, a record that a later one has replaced meanwhile does not count."""
        for key, entry in self._pending.pop(producer_id, {}).items():
            known = self._latest.get(key)
            if commit and (known is None or known.offset < entry.offset):
                self._latest[key] = entry._replace(producer_id=None)

    def entries(self) -> Iterable[LoggedRecord]:
        """What counts, pending offsets in their places among the others."""
        pending = [entry for records in self._pending.values() for entry in records.values()]
        if not pending:
            return self._latest.values()
        return sorted([*self._latest.values(), *pending])

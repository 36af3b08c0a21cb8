"""Sums up the samples of one flush window to rows of the ``samples`` table. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

HOUR_MS = 3_600_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Sample:
    """The batches of one topic partition in one Fetch response.

    Never changed, but not frozen: creating a frozen one costs four times as much, and each Fetch creates some.
    """

    ts_ms: int
    """When the bytes were handed to the socket, ms since the epoch."""
    group: str | None
    member_id: str | None
    client_id: str | None
    host: str
    topic: str
    partition: int
    evidence: str
    reason: str | None
    """Why ``group`` is None; None otherwise."""
    messages: int
    """Records in the batches that were sent, counting whole batches; at least 1."""
    bytes: int
    first_offset: int
    """The larger of the fetch offset and the first batch's base offset."""
    last_offset: int
    """Last offset of the last batch, inclusive."""
    control_records: int = 0
    """Markers of transactions among ``messages``."""
    aborted_records: int = 0
    """Records of aborted transactions among ``messages``, for a client that reads committed records."""


@dataclass(slots=True, kw_only=True)
class Row:
    """One row of the ``samples`` table while it grows. ``head`` is what all its fetches have in common."""

    head: Sample
    last_ts_ms: int
    messages: int
    bytes: int
    fetches: int
    last_offset: int
    control_records: int = 0
    aborted_records: int = 0

    def extend(
        self,
        ts_ms: int,
        messages: int,
        size_bytes: int,
        first_offset: int,
        last_offset: int,
        control_records: int = 0,
        aborted_records: int = 0,
    ) -> bool:
        """Add one more fetch if it starts where the row ends, in the row's hour. Returns whether it did."""
        if first_offset != self.last_offset + 1 or ts_ms // HOUR_MS != self.head.ts_ms // HOUR_MS:
            return False
        self.last_ts_ms = ts_ms
        self.messages += messages
        self.bytes += size_bytes
        self.fetches += 1
        self.last_offset = last_offset
        self.control_records += control_records
        self.aborted_records += aborted_records
        return True


def series_of(sample: Sample) -> tuple[object, ...]:
    """Return the values that all samples of a row share: client, attribution and partition."""
    return (
        sample.partition,
        sample.topic,
        sample.group,
        sample.member_id,
        sample.client_id,
        sample.host,
        sample.evidence,
        sample.reason,
    )


def extension(sample: Sample) -> tuple[int, int, int, int, int, int, int]:
    """Return the arguments of :meth:`Row.extend`."""
    return (
        sample.ts_ms,
        sample.messages,
        sample.bytes,
        sample.first_offset,
        sample.last_offset,
        sample.control_records,
        sample.aborted_records,
    )


class Rollup:
    """Sums up samples; the rows depend only on the samples and their order."""

    def __init__(self) -> None:
        self._open: dict[tuple[object, ...], Row] = {}
        self._done: list[Row] = []

    def __len__(self) -> int:
        return len(self._open) + len(self._done)

    def add(self, sample: Sample) -> Row:
        """Extend the open row of the sample's (client, attribution, partition), or begin a new one; returns the row."""
        key = series_of(sample)
        row = self._open.get(key)
        if row is not None:
            if row.extend(*extension(sample)):
                return row
            self._done.append(row)
        row = self._open[key] = Row(
            head=sample,
            last_ts_ms=sample.ts_ms,
            messages=sample.messages,
            bytes=sample.bytes,
            fetches=1,
            last_offset=sample.last_offset,
            control_records=sample.control_records,
            aborted_records=sample.aborted_records,
        )
        return row

    def take(self, row: Row) -> None:
        """Add a row that only the caller extends; samples that are added do not."""
        self._done.append(row)

    def by_folder(self) -> dict[str, list[Row]]:
        """Rows by the folder that their ``ts`` belongs to, ``date=YYYY-MM-DD/hour=HH``."""
        folders: dict[str, list[Row]] = {}
        for row in self.rows():
            folders.setdefault(hour_folder(row.head.ts_ms), []).append(row)
        return folders

    def rows(self) -> Iterator[Row]:
        """Yield the rows as they are now."""
        yield from self._done
        yield from self._open.values()


def hour_folder(ts_ms: int) -> str:
    """``date=YYYY-MM-DD/hour=HH`` in UTC; ms since the epoch."""
    moment = _EPOCH + timedelta(milliseconds=ts_ms)
    return f"date={moment:%Y-%m-%d}/hour={moment:%H}"

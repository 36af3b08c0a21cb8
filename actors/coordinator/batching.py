"""Packs the records of a coordinator's steps into batches of its log.

The records of one step are atomic: they are in one batch. With ``group.coordinator.append.linger.ms``, and while the
disk is busy, several steps share a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from muster.actors.group.types import Record, WriteId

_RECORD_OVERHEAD_BYTES = 32
_BATCH_OVERHEAD_BYTES = 128


class Batch(NamedTuple):
    """Records that are written as one."""

    records: list[Record]
    size_bytes: int
    """Upper bound of its size, uncompressed."""


def batches(records: Sequence[Record], limit_bytes: int) -> list[Batch] | None:
    """One batch, since a step is atomic; None if it exceeds the log's limit.

    A step of tombstones only (expiry, deletion of topics and groups) may be split, as in Kafka.
    """
    whole = _batch([*records])
    if whole.size_bytes <= limit_bytes:
        return [whole]
    packed = _pack((_batch([record]) for record in records), limit_bytes)
    may_split = all(record.value is None for record in records)
    fits = all(batch.size_bytes <= limit_bytes for batch in packed)
    return packed if fits and may_split else None


def _batch(records: list[Record]) -> Batch:
    size = _BATCH_OVERHEAD_BYTES + len(records) * _RECORD_OVERHEAD_BYTES
    for key, value in records:
        size += len(key) + len(value or b"")
    return Batch(records, size)


def _pack(parts: Iterable[Batch], limit_bytes: int) -> list[Batch]:
    """Put the parts into as few batches as their order allows. No part is split."""
    packed: list[Batch] = []
    records: list[Record] = []
    size = _BATCH_OVERHEAD_BYTES
    for part in parts:
        needed = part.size_bytes - _BATCH_OVERHEAD_BYTES
        if records and size + needed > limit_bytes:
            packed.append(Batch(records, size))
            records, size = [], _BATCH_OVERHEAD_BYTES
        records.extend(part.records)
        size += needed
    return [*packed, Batch(records, size)]


class Written(NamedTuple):
    """A write, and where its first record is."""

    write: WriteId
    offset: int
    """In the log, or in the batches that are written together."""


class Lingering:
    """Holds batches back until ``linger_ms`` after the first one, or until their total size is ``limit_bytes``.

    With -1, only until the end of this turn of the event loop, and while earlier ones are being written
    (:meth:`ended`): 50 connections that commit one offset each share a batch of a dozen, and one step of the core
    answers them. With 0 nothing is held back. ``write`` gets the writes and the batches. Call :meth:`ended` when they
    are durable.
    """

    def __init__(self, linger_ms: int, limit_bytes: int, write: Callable[[list[Written], list[Batch]], None]) -> None:
        self.limit_bytes = limit_bytes
        """May be changed at any time."""
        self._linger_ms = linger_ms
        self._write = write
        self._writes: list[Written] = []
        self._held: list[Batch] = []
        self._held_bytes = 0
        self._held_records = 0
        self._written = 0
        """How many are being written."""
        self._timer: asyncio.Handle | None = None

    def add(self, write: WriteId, parts: list[Batch]) -> None:
        """Write these batches after all earlier ones, in the same batch if they fit."""
        self._writes.append(Written(write, self._held_records))
        self._held += parts
        for part in parts:
            self._held_bytes += part.size_bytes
            self._held_records += len(part.records)
        if self._linger_ms == 0 or self._held_bytes >= self.limit_bytes:
            self.flush()
        elif self._timer is None and self._linger_ms > 0:
            self._timer = asyncio.get_running_loop().call_later(self._linger_ms / 1000, self.flush)
        elif self._timer is None and not self._written:
            self._timer = asyncio.get_running_loop().call_soon(self.flush)

    def turn_ended(self) -> None:
        """Note that nothing will be added in this turn of the event loop."""
        if self._linger_ms < 0 and not self._written:
            self.flush()

    def ended(self) -> None:
        """Note that one of :meth:`flush`'s writes has ended."""
        self._written -= 1
        if self._linger_ms < 0 and not self._written:
            self.flush()

    def flush(self) -> None:
        """Write the batches that are held back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._writes:
            return
        writes, parts = self._writes, self._held
        self._writes, self._held, self._held_bytes, self._held_records = [], [], 0, 0
        self._written += 1
        self._write(writes, _pack(parts, self.limit_bytes))

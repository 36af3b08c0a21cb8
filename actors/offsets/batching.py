"""Packs the records of the coordinator's steps into batches of its log.

The records of one step are atomic: they are in one batch. With ``group.coordinator.append.linger.ms``, several steps
share a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from muster.actors.group.types import Record, WriteId

Batch = list[Record]

_RECORD_OVERHEAD_BYTES = 32
_BATCH_OVERHEAD_BYTES = 128


def batches(records: Sequence[Record], limit_bytes: int) -> list[Batch] | None:
    """One batch, since a step is atomic; None if it exceeds the log's limit.

    A step of tombstones only (expiry, deletion of topics and groups) may be split, as in Kafka.
    """
    if size_bytes(records) <= limit_bytes:
        return [[*records]]
    packed = _pack(([record] for record in records), limit_bytes)
    may_split = all(record.value is None for record in records)
    fits = all(size_bytes(batch) <= limit_bytes for batch in packed)
    return packed if fits and may_split else None


def size_bytes(records: Iterable[Record]) -> int:
    """Upper bound of the size of an uncompressed batch of these records."""
    sizes = [len(key) + len(value or b"") for key, value in records]
    return _BATCH_OVERHEAD_BYTES + len(sizes) * _RECORD_OVERHEAD_BYTES + sum(sizes)


def _pack(parts: Iterable[Batch], limit_bytes: int) -> list[Batch]:
    """The parts in as few batches as their order allows. No part is split."""
    packed: list[Batch] = [[]]
    size = _BATCH_OVERHEAD_BYTES
    for part in parts:
        needed = size_bytes(part) - _BATCH_OVERHEAD_BYTES
        if packed[-1] and size + needed > limit_bytes:
            packed.append([])
            size = _BATCH_OVERHEAD_BYTES
        packed[-1].extend(part)
        size += needed
    return packed


class Lingering:
    """Holds batches back until ``linger_ms`` after the first one, or until their total size is ``limit_bytes``.

    With ``linger_ms`` of 0 or less nothing is held back. ``write`` gets the first and the last write and the batches.
    """

    def __init__(
        self, linger_ms: int, limit_bytes: Callable[[], int], write: Callable[[WriteId, WriteId, list[Batch]], None]
    ) -> None:
        self._linger_s = linger_ms / 1000
        self._limit_bytes = limit_bytes
        self._write = write
        self._writes: list[WriteId] = []
        self._held: list[Batch] = []
        self._held_bytes = 0
        self._timer: Any = None

    def add(self, write: WriteId, parts: list[Batch]) -> None:
        """Write these batches after all earlier ones, in the same batch if they fit."""
        self._writes.append(write)
        self._held += parts
        self._held_bytes += sum(map(size_bytes, parts))
        if self._linger_s <= 0 or self._held_bytes >= self._limit_bytes():
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._linger_s, self.flush)

    def flush(self) -> None:
        """Write the batches that are held back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._writes:
            return
        writes, parts = self._writes, self._held
        self._writes, self._held, self._held_bytes = [], [], 0
        self._write(writes[0], writes[-1], _pack(parts, self._limit_bytes()))

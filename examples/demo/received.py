"""Records of one consumer, exactly and compactly: intervals of offsets, and one bit for each row."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

Interval = tuple[int, int]
"""First and last offset, inclusive."""


class Received:
    """Counts records by position (partition, offset) and by content (row number)."""

    def __init__(self, rows: int) -> None:
        self.total = 0
        self.next_offset: dict[int, int] = {}
        """Highest offset that was received plus one, by partition."""
        self._intervals: dict[int, list[list[int]]] = {}
        self._rows = bytearray((rows + 7) // 8)

    def add(self, partition: int, offset: int, row: int) -> None:
        """Count one record. IndexError for an impossible row number."""
        self.total += 1
        self._rows[row >> 3] |= 1 << (row & 7)
        intervals = self._intervals.setdefault(partition, [[offset, offset - 1]])
        if offset == intervals[-1][1] + 1:
            intervals[-1][1] = offset
        else:
            intervals.append([offset, offset])
        if offset >= self.next_offset.get(partition, 0):
            self.next_offset[partition] = offset + 1

    def to_json(self) -> dict[str, Any]:
        return {
            "total": self.total,
            "intervals": {str(partition): found for partition, found in self._intervals.items()},
            "rows": base64.b64encode(self._rows).decode(),
        }


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the offsets as disjoint ascending intervals, with adjacent ones joined."""
    joined: list[Interval] = []
    for first, last in sorted(intervals):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def missing_rows(bitmaps: Iterable[bytes], rows: int) -> list[int]:
    """Return the numbers below ``rows`` whose bit is set in none of the bitmaps."""
    seen = 0
    for bitmap in bitmaps:
        seen |= int.from_bytes(bitmap, "little")
    missing = ~seen & ((1 << rows) - 1)
    found = []
    while missing:
        lowest = missing & -missing
        found.append(lowest.bit_length() - 1)
        missing ^= lowest
    return found

"""Rows of the table ``commits``: each committed offset at the end of a window in which it was committed.

Pure: the time of each event is an argument. Memory grows with the partitions committed in the window, not with the
commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from muster.actors.group.events import OffsetsCommitted, RemovedOffset

_Committer = tuple[int | None, str | None, str | None, str]
"""Generation, member id, client id, host."""


class Kind(StrEnum):
    COMMIT = "commit"
    EXPIRED = "expired"
    DELETED = "deleted"


@dataclass(slots=True)
class _Moved:
    """The changes of one partition of one group."""

    ts_ms: int
    previous: int | None
    offset: int | None
    lowest: int | None
    commits: int
    kind: Kind
    by: _Committer | None
    """The last commit's; None without a commit."""


class CommitWindow:
    """The changes of committed offsets since the window was created. ``False`` while there are none."""

    def __init__(self) -> None:
        self._moved: dict[tuple[str, str, int], _Moved] = {}

    def __len__(self) -> int:
        return len(self._moved)

    def committed(self, event: OffsetsCommitted, now_ms: int) -> None:
        """Offsets of a group are durable. Called for every commit: some hundred nanoseconds per partition."""
        group = event.group
        by = (event.generation, event.member_id, event.client_id, event.host)
        for topic, partition, before, offset in event.partitions:
            key = (group, topic, partition)
            moved = self._moved.get(key)
            if moved is None:
                self._moved[key] = _Moved(now_ms, before, offset, offset, 1, Kind.COMMIT, by)
                continue
            moved.ts_ms = now_ms
            moved.offset = offset
            if moved.lowest is None or offset < moved.lowest:
                moved.lowest = offset
            moved.commits += 1
            moved.kind = Kind.COMMIT
            moved.by = by

    def removed(self, group: str, partitions: Iterable[RemovedOffset], kind: Kind, now_ms: int) -> None:
        """Record that these offsets were removed."""
        for topic, partition, before in partitions:
            key = (group, topic, partition)
            moved = self._moved.get(key)
            if moved is None:
                self._moved[key] = _Moved(now_ms, before, None, None, 0, kind, None)
            else:
                moved.ts_ms, moved.offset, moved.kind = now_ms, None, kind

    def rows(self, *, offsets_partition: int, epoch: int) -> Iterator[dict[str, Any]]:
        """One row for each partition of each group, as in the table, times in ms."""
        for (group, topic, partition), moved in self._moved.items():
            generation, member_id, client_id, host = moved.by or (None, None, None, None)
            yield {
                "ts": moved.ts_ms,
                "offsets_partition": offsets_partition,
                "epoch": epoch,
                "group": group,
                "topic": topic,
                "partition": partition,
                "kind": moved.kind,
                "offset": moved.offset,
                "lowest": moved.lowest,
                "previous": moved.previous,
                "commits": moved.commits,
                "generation": generation,
                "member_id": member_id,
                "client_id": client_id,
                "host": host,
            }

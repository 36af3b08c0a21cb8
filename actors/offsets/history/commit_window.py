"""Rows of the table ``commits``: where each committed offset stood at the end of a window in which there was a commit.

Pure: the time of each event is given. Memory grows with the partitions that were committed in the window, not with
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
    """One partition of one group."""

    ts_ms: int
    previous: int | None
    offset: int | None
    lowest: int | None
    commits: int
    kind: Kind
    by: _Committer | None
    """Of the last commit; None without any."""


class CommitWindow:
    """What happened to committed offsets since it was made. ``False`` while that is nothing."""

    def __init__(self) -> None:
        self._moved: dict[tuple[str, str, int], _Moved] = {}

    def __len__(self) -> int:
        return len(self._moved)

    def committed(self, event: OffsetsCommitted, now_ms: int) -> None:
        """Offsets of a group are durable. For every commit: some hundred nanoseconds for each partition."""
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
        """These offsets went."""
        for topic, partition, before in partitions:
            key = (group, topic, partition)
            moved = self._moved.get(key)
            if moved is None:
                self._moved[key] = _Moved(now_ms, before, None, None, 0, kind, None)
            else:
                moved.ts_ms, moved.offset, moved.kind = now_ms, None, kind

    def rows(self, *, offsets_partition: int, epoch: int) -> Iterator[dict[str, Any]]:
        """One for each partition of each group, as the table has them, times in ms."""
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

"""The rebalance journal of one coordinator: the last entries in memory, all of them in the table.

Handles four queries. ``history`` (``group``, ``limit``) returns the group's last rebalances, newest first, including
those before this process. ``waiting`` returns every rebalance that has not ended, and whom it waits for. ``journal``
(``after``) returns what has ended since the last such query, and ``recent`` (``since_ms``) the last that ended, both
of all groups and from memory alone. This module also writes the watchdog's lines to the actor's log.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from muster.actors.group.events import Event, RebalanceMovedOn, RebalanceStuck
from muster.actors.group.types import GroupId
from muster.actors.group.watchdog import described, on_one_line
from muster.actors.object_storage.location import Location
from muster.actors.offsets.history.journal import Journal
from muster.actors.offsets.history.publishing import RebalancePublisher
from muster.actors.offsets.history.recent import Recent, that_fit
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.runtime.channels import ActorChannels
from muster.actors.runtime.event_writer import Flushing
from muster.actors.tables.rebalance_entry import RebalanceEntry
from muster.actors.tables.rebalances import RebalanceStore, encode
from muster.actors.tables.schemas.rebalances import REBALANCES
from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

DEFAULT_LIMIT = 20
MAX_BYTES = 2 << 20
"""Limit of JSON in one response, except for a single larger entry: no heartbeat is answered while it is built."""
_FOREVER_MS = -(1 << 62)


class RebalanceHistory:
    """Observes an :class:`OffsetsPartition`. Create it before the partition is activated, ``start`` it after."""

    def __init__(
        self, core: OffsetsPartition, store: RebalanceStore, *, flush_ms: int, now_ms: Callable[[], int]
    ) -> None:
        self._core = core
        self._store = store
        self._flushing = Flushing(REBALANCES, store, flush_ms=flush_ms)
        self._now_ms = now_ms
        self._journal = Journal(partition=core.partition, epoch=core.epoch)
        self._recent = Recent()
        core.observers.add(self.observe, {*self._journal.kinds, RebalanceStuck, RebalanceMovedOn})
        self._publisher: RebalancePublisher | None = None
        core.query_handlers["history"] = self.history
        core.query_handlers["waiting"] = self.waiting
        core.query_handlers["journal"] = self.journal
        core.query_handlers["recent"] = self.recent

    def publish(self, topic: str, channels: ActorChannels, directory: Path, bucket: Location | None = None) -> None:
        """Send entries to a topic as well; call it before ``start``. See :class:`RebalancePublisher`."""
        self._publisher = RebalancePublisher(
            topic,
            partition=self._core.partition,
            epoch=self._core.epoch,
            recent=self._recent,
            store=self._store,
            channels=channels,
            directory=directory,
            bucket=bucket,
        )

    def follow(self, view: ClusterView) -> None:
        if self._publisher is not None:
            self._publisher.follow(view)

    def start(self) -> None:
        """Flush from now on, starting with what a dead predecessor left."""
        self._flushing.start()
        if self._publisher is not None:
            self._publisher.start()

    async def close(self) -> None:
        """Call after the partition has stopped. Writes everything to the table."""
        for entry in self._journal.close(self._now_ms()):
            self.keep(entry)
        if self._publisher is not None:
            await self._publisher.close()
        await self._flushing.close()

    def observe(self, event: Event, now_ms: int) -> None:
        entry = self._journal.observe(event, now_ms)
        if entry is not None:
            self.keep(entry)
        match event:
            case RebalanceStuck():
                log.warning("%s", described(event, now_ms), extra={"group": event.group})
            case RebalanceMovedOn():
                seconds = event.duration_ms / 1000
                name = on_one_line(event.group)
                text = "group %s: %s is over, after %.1f s"
                log.warning(text, name, event.state.value, seconds, extra={"group": event.group})

    async def history(self, query: dict[str, Any]) -> dict[str, Any]:
        """``entries``: the last ``limit`` rebalances of ``group`` as ``RebalanceEntry.to_json``, newest first.

        Fewer if they would exceed MAX_BYTES.
        """
        group, limit = query.get("group"), query.get("limit", DEFAULT_LIMIT)
        if not isinstance(group, str) or not isinstance(limit, int) or limit < 1:
            return {"error": "history needs a group, and a limit of at least 1"}
        running = self._journal.running(group, self._now_ms())
        known = [*([encode(running)] if running else ()), *self._recent.of(group, limit)][:limit]
        found = _that_fit(known, 0)
        if len(found) == len(known) < limit:
            found += await asyncio.to_thread(self._older, group, limit, found)
        if not found and not self._core.coordinator.knows(GroupId(group)):
            return {"error": f"unknown group {group}"}
        return {"group": group, "entries": [_to_json(encoded) for encoded in found[:limit]]}

    def waiting(self, query: dict[str, Any]) -> dict[str, Any]:
        """Return ``groups``: every rebalance that has not ended, as ``RebalanceWait.to_json``."""
        return {"groups": [wait.to_json() for wait in self._core.coordinator.waiting()]}

    def journal(self, query: dict[str, Any]) -> dict[str, Any]:
        """Return what ended after the cursor ``after``, oldest first, of all groups.

        A cursor is ``[leader epoch, count of ended entries]``; without one, ``entries`` is empty. ``since_ms`` leaves
        out entries that ended before that time. At most ``max_bytes`` (default and limit MAX_BYTES), but at least one
        entry.

        ``after``: the next cursor. ``entries``: pairs of a count and the entry as JSON text, which has ``v`` besides
        ``RebalanceEntry.to_json``. ``more``: whether there are further ones now. ``lost``: how many entries between
        the cursors were dropped from memory; null if the cursor is another coordinator's, whose last entries this one
        does not have. The cursor ``[0, 0]``, of no coordinator, is before the first entry.
        """
        after, now = query.get("after"), [self._core.epoch, self._recent.count]
        since_ms, max_bytes = query.get("since_ms", _FOREVER_MS), query.get("max_bytes", MAX_BYTES)
        if not all(isinstance(value, int) for value in (since_ms, max_bytes)):
            return {"error": "since_ms and max_bytes are numbers"}
        if after is None:
            return {"after": now, "entries": [], "lost": 0, "more": False}
        if not isinstance(after, list) or len(after) != 2 or not all(isinstance(value, int) for value in after):
            return {"error": "after is a cursor [leader epoch, count]"}
        epoch, count = after
        part = self._recent.since(count if epoch == self._core.epoch else 0, min(max_bytes, MAX_BYTES))
        return {
            "after": [self._core.epoch, part.count],
            "entries": [[kept.count, kept.encoded.decode()] for kept in part.entries if kept.ended_ms >= since_ms],
            "lost": part.lost if epoch in (self._core.epoch, 0) else None,
            "more": part.more,
        }

    def recent(self, query: dict[str, Any]) -> dict[str, Any]:
        """Return ``entries`` of all groups that ended at ``since_ms`` or later, as JSON text as in ``journal``.

        Newest first, at most ``limit`` and ``max_bytes``, but at least one. ``more``: whether there are further ones.
        """
        since_ms, limit = query.get("since_ms", _FOREVER_MS), query.get("limit", DEFAULT_LIMIT)
        max_bytes = query.get("max_bytes", MAX_BYTES)
        if not all(isinstance(value, int) for value in (since_ms, limit, max_bytes)) or limit < 1:
            return {"error": "recent needs numbers, and a limit of at least 1"}
        known = takewhile(lambda kept: kept.ended_ms >= since_ms, self._recent.newest_first())
        candidates = [*islice(known, limit + 1)]
        found = that_fit(candidates[:limit], min(max_bytes, MAX_BYTES))
        return {"entries": [kept.encoded.decode() for kept in found], "more": len(found) < len(candidates)}

    def _older(self, group: str, limit: int, found: list[bytes]) -> list[bytes]:
        """From the table and its spools, the entries that are not in memory. Blocks."""
        known = {(entry["epoch"], entry["number"]) for entry in map(_to_json, found)}
        stored = (entry for entry in self._store.recent(group, limit) if (entry.epoch, entry.number) not in known)
        return _that_fit(map(encode, stored), sum(map(len, found)))

    def keep(self, entry: RebalanceEntry) -> None:
        """Add an entry that has just ended."""
        encoded = encode(entry)
        self._recent.add(entry, encoded)
        self._store.add(entry, encoded)
        if self._publisher is not None:
            self._publisher.ended()


def _that_fit(entries: Iterable[bytes], used_bytes: int) -> list[bytes]:
    """Return the first entries, up to MAX_BYTES including ``used_bytes``; at least one if ``used_bytes`` is 0."""
    fitting: list[bytes] = []
    for encoded in entries:
        if used_bytes and used_bytes + len(encoded) > MAX_BYTES:
            break
        fitting.append(encoded)
        used_bytes += len(encoded)
    return fitting


def _to_json(encoded: bytes) -> dict[str, Any]:
    """Like ``RebalanceEntry.to_json``."""
    values: dict[str, Any] = json.loads(encoded)
    del values["v"]
    return values

"""The rebalance journal of one coordinator: the last entries in memory, all of them in the table.

Handles two queries. ``history`` (``group``, ``limit``) returns the group's last rebalances, newest first, including
those before this process. ``waiting`` returns every rebalance that has not ended, and whom it waits for. This module
also writes the watchdog's lines to the actor's log.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from muster.actors.group.events import Event, RebalanceMovedOn, RebalanceStuck
from muster.actors.group.types import GroupId
from muster.actors.group.watchdog import described, on_one_line
from muster.actors.offsets.history.journal import Journal
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.runtime.event_writer import Flushing
from muster.actors.tables.rebalance_entry import RebalanceEntry
from muster.actors.tables.rebalances import RebalanceStore, encode
from muster.actors.tables.schemas.rebalances import REBALANCES

log = logging.getLogger(__name__)

DEFAULT_LIMIT = 20
MAX_BYTES = 2 << 20
"""Limit of JSON in one response, except for a single larger entry: no heartbeat is answered while it is built."""


class Recent:
    """The last entries of each group. Above ``most_bytes`` (of JSON), the oldest entries of all groups are dropped."""

    def __init__(self, *, per_group: int = 100, most_bytes: int = 4 << 20) -> None:
        self._per_group = per_group
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries: dict[int, tuple[str, bytes]] = {}
        self._by_group: dict[str, deque[int]] = {}

    def add(self, entry: RebalanceEntry, encoded: bytes) -> None:
        """Entries of a group come in the order of their numbers, which are unique across groups."""
        numbers = self._by_group.setdefault(entry.group, deque())
        numbers.append(entry.number)
        self._entries[entry.number] = entry.group, encoded
        self._bytes += len(encoded)
        if len(numbers) > self._per_group:
            self._drop(numbers[0])
        while self._bytes > self._most_bytes:
            self._drop(next(iter(self._entries)))

    def of(self, group: str, limit: int) -> list[bytes]:
        """Return the group's entries, newest first."""
        numbers = [*self._by_group.get(group, ())][-limit:]
        return [self._entries[number][1] for number in reversed(numbers)]

    def _drop(self, number: int) -> None:
        """Forget an entry, which must be the oldest of its group."""
        group, encoded = self._entries.pop(number)
        self._bytes -= len(encoded)
        numbers = self._by_group[group]
        numbers.popleft()
        if not numbers:
            del self._by_group[group]


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
        core.query_handlers["history"] = self.history
        core.query_handlers["waiting"] = self.waiting

    def start(self) -> None:
        """Flush from now on, starting with what a dead predecessor left."""
        self._flushing.start()

    async def close(self) -> None:
        """Call after the partition has stopped. Writes everything to the table."""
        for entry in self._journal.close(self._now_ms()):
            self._keep(entry)
        await self._flushing.close()

    def observe(self, event: Event, now_ms: int) -> None:
        entry = self._journal.observe(event, now_ms)
        if entry is not None:
            self._keep(entry)
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

    def _older(self, group: str, limit: int, found: list[bytes]) -> list[bytes]:
        """From the table and its spools, the entries that are not in memory. Blocks."""
        known = {(entry["epoch"], entry["number"]) for entry in map(_to_json, found)}
        stored = (entry for entry in self._store.recent(group, limit) if (entry.epoch, entry.number) not in known)
        return _that_fit(map(encode, stored), sum(map(len, found)))

    def _keep(self, entry: RebalanceEntry) -> None:
        encoded = encode(entry)
        self._recent.add(entry, encoded)
        self._store.add(entry, encoded)


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

"""The cluster's faults, held by the controller and saved in a file for its successor, with their counts.

The file need not survive a power failure: the faults end with the processes anyway. On a bucket it is on one node, and
the faults end when the controller moves to another.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.actors.faults.errors import InvalidFault
from muster.actors.faults.matching import fires
from muster.actors.faults.model import Fault, RequestFault

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The process that an actor fault holds."""

    actor: str
    pid: int
    node_id: str
    holder: int
    """Pid of the process that sends it the signals (:mod:`muster.actors.faults.holder`), on the same node."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """A fault in force."""

    id: str
    fault: Fault
    injected_ms: int
    """ms since the Unix epoch."""
    matched: int = 0
    hits: int = 0
    target: Target | None = None

    @property
    def expires_at_ms(self) -> int | None:
        return None if self.fault.expires_ms is None else self.injected_ms + self.fault.expires_ms

    def to_json(self) -> dict[str, Any]:
        """Return the entry for listings; times are ms since the Unix epoch."""
        entry = {
            "id": self.id,
            "fault": self.fault.to_json(),
            "injected_ms": self.injected_ms,
            "expires_at_ms": self.expires_at_ms,
            "matched": self.matched,
            "hits": self.hits,
        }
        if self.target is not None:
            entry |= {"actor": self.target.actor, "pid": self.target.pid}
        return entry


@dataclass(frozen=True, slots=True)
class Book:
    """The request faults that gateways must inject. Picklable."""

    version: int
    """Grows with every change; a gateway ignores a book that is not newer than its own."""
    faults: tuple[tuple[str, RequestFault, int | None], ...] = field(default=())
    """(id, fault, remaining ms) in the order of injection."""


class FaultRegistry:
    """All methods are for one thread. ``now_ms`` is the wall clock in ms."""

    def __init__(self, path: Path, now_ms: Callable[[], int]) -> None:
        self._path = path
        self._now_ms = now_ms
        self._version = 0
        self._last_id = 0
        self._entries: dict[str, Entry] = {}

    def load(self) -> None:
        """Load what a predecessor saved. A file that cannot be read is logged and ignored."""
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            self._version, self._last_id = int(kept["version"]), int(kept["last_id"])
            self._entries = {item["id"]: _entry(item) for item in kept["faults"]}
        except FileNotFoundError:  # it ran on another node: gateways must not go on with what it had
            with suppress(OSError):
                self._changed()
        except (OSError, ValueError, KeyError, TypeError, InvalidFault) as error:
            log.error("%s cannot be read, its faults are forgotten: %s", self._path, error)

    def forget(self) -> None:
        """Start without faults: those in the file are from an earlier run."""
        self._path.unlink(missing_ok=True)

    @property
    def entries(self) -> list[Entry]:
        """All entries, in the order of injection."""
        return list(self._entries.values())

    def get(self, fault_id: str) -> Entry | None:
        return self._entries.get(fault_id)

    def next_id(self) -> str:
        """Return an id that no fault of this cluster has had before."""
        self._last_id += 1
        return f"f-{self._last_id}"

    def add(self, fault_id: str, fault: Fault, target: Target | None = None) -> Entry:
        """Add a fault that is in force from now on."""
        entry = Entry(id=fault_id, fault=fault, injected_ms=self._now_ms(), target=target)
        self._entries[fault_id] = entry
        self._changed()
        return entry

    def remove(self, *fault_ids: str) -> list[Entry]:
        """Remove these faults. Returns the entries that existed."""
        gone = [entry for fault_id in fault_ids if (entry := self._entries.pop(fault_id, None)) is not None]
        if gone:
            self._changed()
        return gone

    def expired(self) -> list[Entry]:
        """Entries that have expired; they are not removed."""
        now_ms = self._now_ms()
        return [entry for entry in self.entries if entry.expires_at_ms is not None and entry.expires_at_ms <= now_ms]

    def draw(self, fault_id: str) -> int:
        """Return the number of a request that matched the fault, from 1; 0 if the fault is over.

        No number is returned twice.
        """
        entry = self._entries.get(fault_id)
        if entry is None:
            return 0
        entry.matched += 1
        entry.hits += isinstance(entry.fault, RequestFault) and fires(entry.fault, entry.matched)
        self._save()
        return entry.matched

    def report(self, counts: Mapping[str, int]) -> None:
        """How often a gateway injected faults on its own: those that always act."""
        for fault_id, count in counts.items():
            if (entry := self._entries.get(fault_id)) is not None:
                entry.matched += count
                entry.hits += count
        self._save()

    def book(self) -> Book:
        """Return the faults that gateways must know."""
        now_ms = self._now_ms()
        return Book(
            self._version,
            tuple(
                (entry.id, entry.fault, None if entry.expires_at_ms is None else max(entry.expires_at_ms - now_ms, 0))
                for entry in self.entries
                if isinstance(entry.fault, RequestFault)
            ),
        )

    def _changed(self) -> None:
        """Increase the version, even if the file was lost: the gateways' version is from an earlier time."""
        self._version = max(self._version + 1, self._now_ms())
        self._save()

    def _save(self) -> None:
        kept = {"version": self._version, "last_id": self._last_id, "faults": [_kept(entry) for entry in self.entries]}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(kept), encoding="utf-8")
        new.replace(self._path)


def _kept(entry: Entry) -> dict[str, Any]:
    target = entry.target
    return {
        "id": entry.id,
        "fault": entry.fault.to_json(),
        "injected_ms": entry.injected_ms,
        "matched": entry.matched,
        "hits": entry.hits,
        "target": None
        if target is None
        else {"actor": target.actor, "pid": target.pid, "node_id": target.node_id, "holder": target.holder},
    }


def _entry(kept: Mapping[str, Any]) -> Entry:
    return Entry(
        id=str(kept["id"]),
        fault=Fault.from_json(kept["fault"]),
        injected_ms=int(kept["injected_ms"]),
        matched=int(kept["matched"]),
        hits=int(kept["hits"]),
        target=None if kept["target"] is None else Target(**kept["target"]),
    )

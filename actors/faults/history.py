"""The table ``faults``: what was done to the cluster on purpose, to distinguish such outages from others."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from muster.actors.faults.model import Fault
from muster.actors.faults.registry import Entry
from muster.actors.runtime.event_writer import Add

_COLUMNS = frozenset({"action", "actor", "api", "group", "member", "client_id"})
_KEPT = 1_000
"""Beginnings and ends of faults in memory."""


class FaultHistory:
    """For the controller's event loop. ``now_ms`` is the wall clock in ms.

    A request fault may act thousands of times a second. The first time is recorded at once; later ones are counted, and
    :meth:`collect` records them. The last times that faults began and ended are kept in memory, too.
    """

    def __init__(self, add: Add, now_ms: Callable[[], int]) -> None:
        self._add = add
        self.now_ms = now_ms
        self._acted: dict[str, tuple[Fault, int]] = {}
        """Faults that acted recently, and how often since the last row about them."""
        self._run = now_ms()
        self._count = 0
        self._happened: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    def injected(self, fault_id: str, fault: Fault, actor: str | None = None, **where: Any) -> None:
        """Record a fault that is in force from now on, or is about to signal an actor; ``where`` is its process."""
        self._record(fault_id, "injected", fault, actor, where)
        row = Entry(id=fault_id, fault=fault, injected_ms=self.now_ms()).to_json()
        self._happens("injected", row if actor is None else row | {"actor": actor, "pid": where.get("pid")})

    def happened(self, after: list[int] | None) -> dict[str, Any]:
        """Return ``events``: how faults began and ended after that cursor, oldest first; none without a cursor.

        Each is ``{"at_ms", "what": "injected"|"cleared", "fault"}``, with the fault as in the list of faults; one that
        expired is cleared, too. ``after``: the next cursor, ``[start of this controller in ms, count]``. With another
        controller's cursor, all that this one has.
        """
        events: list[dict[str, Any]] = []
        if after is not None:
            known = after[1] if after[0] == self._run else 0
            new = min(max(self._count - known, 0), len(self._happened))
            events = [*self._happened][len(self._happened) - new :]
        return {"after": [self._run, self._count], "events": events}

    def _happens(self, what: str, row: dict[str, Any]) -> None:
        self._count += 1
        self._happened.append({"at_ms": self.now_ms(), "what": what, "fault": row})

    def signalled(self, fault_id: str, fault: Fault, actor: str, ts_ms: int, **where: Any) -> None:
        """Record a signal to an actor, sent at ``ts_ms`` or later."""
        self._record(fault_id, "fired", fault, actor, where, ts_ms)

    def acted(self, entry: Entry, requests: int) -> None:
        """Count requests that the fault acted on."""
        if not requests:
            return
        known = self._acted.get(entry.id)
        if known is None:
            self._acted[entry.id] = entry.fault, 0
            self._record(entry.id, "fired", entry.fault, None, {"requests": requests})
        else:
            self._acted[entry.id] = entry.fault, known[1] + requests

    def collect(self) -> None:
        """Record how often faults have acted since their last row."""
        before, self._acted = self._acted, {}
        for fault_id, (fault, requests) in before.items():
            if requests:
                self._acted[fault_id] = fault, 0
                self._record(fault_id, "fired", fault, None, {"requests": requests})

    def ended(self, entry: Entry, *, expired: bool) -> None:
        """Record the end of a fault: it expired, it was cleared, or its process has ended."""
        _, requests = self._acted.pop(entry.id, (entry.fault, 0))
        if requests:
            self._record(entry.id, "fired", entry.fault, None, {"requests": requests})
        target = entry.target
        where = {} if target is None else {"pid": target.pid, "node_id": target.node_id}
        actor = None if target is None else target.actor
        self._record(entry.id, "expired" if expired else "cleared", entry.fault, actor, where)
        self._happens("cleared", entry.to_json())

    def _record(
        self, fault_id: str, event: str, fault: Fault, actor: str | None, more: dict[str, Any], ts_ms: int | None = None
    ) -> None:
        fields = fault.to_json()
        rest = {name: value for name, value in fields.items() if name not in _COLUMNS} | more
        row: dict[str, Any] = {
            "ts": self.now_ms() if ts_ms is None else ts_ms,
            "fault": fault_id,
            "event": event,
            "action": fault.action,
            "actor": actor or fields.get("actor"),
            "api": fields.get("api"),
            "group": fault.group,
            "member_id": fields.get("member"),
            "client_id": fields.get("client_id"),
            "detail": json.dumps(rest) if rest else None,
        }
        self._add(row)

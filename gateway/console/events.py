"""The stream of events, ``GET /v1/events``: rebalances into the journal, faults and actors into the marks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from muster.gateway.console.api import Api
from muster.gateway.console.model.journal import Journal, read_entries
from muster.gateway.console.model.marks import Marks, actor_mark, fault_mark

EVENTS = "/v1/events"
Happened = Callable[[str, dict[str, Any]], None]


class EventReader:
    """Reads one stream after the other. ``happened`` is called with the kind and the values of each event."""

    def __init__(self, api: Api, journal: Journal, marks: Marks, happened: Happened) -> None:
        self._api = api
        self._journal = journal
        self._marks = marks
        self._happened = happened
        self.place = ""
        """Id of the last event, with which the next stream goes on."""

    async def read(self) -> None:
        """Read a stream until it ends. Raises ApiError, MissingRoute or NoGateway."""
        async with self._api.lines("GET", EVENTS, last_event_id=self.place or None) as lines:
            kind = ""
            async for line in lines:
                name, _, value = line.partition(":")
                if name == "id":
                    self.place = value.strip()
                elif name == "event":
                    kind = value.strip()
                elif name == "data":
                    self._take(kind, value.strip())
                elif not line:
                    kind = ""

    def _take(self, kind: str, data: str) -> None:
        try:
            values = json.loads(data)
            is_new = isinstance(values, dict) and self._is_new(kind, values)
        except (KeyError, TypeError, ValueError):  # of a newer gateway
            return
        if is_new:
            self._happened(kind, values)

    def _is_new(self, kind: str, values: dict[str, Any]) -> bool:
        """Keep the event. Returns whether it says something new."""
        if kind == "rebalance":
            return bool(self._journal.add(read_entries([values])))
        if kind == "fault":
            row = values["fault"]
            self._marks.add(
                fault_mark(values["at_ms"], row["fault"], row.get("actor"), is_end=values["what"] == "cleared")
            )
        elif kind == "actor":
            self._marks.add(actor_mark(values["at_ms"], values["name"], values["state"]))
        return kind in ("fault", "actor", "lost")

"""The stream of events, ``GET /v1/events``: rebalances into the journal, faults and actors into the marks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from muster.gateway.console.api import Api
from muster.gateway.console.model.journal import Journal, read_entries
from muster.gateway.console.model.marks import ACTOR, FAULT, Mark, Marks, fault_text

EVENTS = "/v1/events"


class EventReader:
    """Reads one stream after the other. ``happened`` is called with the kind of each event."""

    def __init__(self, api: Api, journal: Journal, marks: Marks, happened: Callable[[str], None]) -> None:
        self._api = api
        self._journal = journal
        self._marks = marks
        self._happened = happened

    async def read(self) -> None:
        """Read a stream until it ends. Raises ApiError, MissingRoute or NoGateway."""
        async with self._api.lines("GET", EVENTS) as lines:
            kind = ""
            async for line in lines:
                name, _, value = line.partition(":")
                if name == "event":
                    kind = value.strip()
                elif name == "data":
                    self._take(kind, value.strip())
                elif not line:
                    kind = ""

    def _take(self, kind: str, data: str) -> None:
        try:
            values = json.loads(data)
        except ValueError:
            return
        if not isinstance(values, dict):
            return
        if kind == "rebalance":
            if not self._journal.add(read_entries([values])):
                return
        elif kind == "fault":
            self._marks.add(_fault(values))
        elif kind == "actor":
            name, state = values.get("name") or values.get("actor"), values.get("state") or values.get("what")
            self._marks.add(Mark(_at_ms(values), ACTOR, f"{name} is {state}"))
        else:
            return
        self._happened(kind)


def _fault(values: dict[str, Any]) -> Mark:
    text = fault_text(values.get("fault") or values, values.get("actor"))
    is_end = values.get("what", values.get("event")) in ("cleared", "ended")
    return Mark(_at_ms(values), FAULT, f"end of {text}" if is_end else text)


def _at_ms(values: dict[str, Any]) -> int:
    return int(values.get("at_ms") or values.get("injected_ms") or time.time_ns() // 1_000_000)

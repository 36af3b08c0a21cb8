"""Output of ``muster events``."""

from __future__ import annotations

from typing import Any

import pytest

from muster.gateway.cli.events import Event, in_words
from tests.tables.rebalances import entry


def test_a_rebalance_in_a_line() -> None:
    assert in_words(Event("rebalance", entry(1).to_json())) == (
        "2023-11-15 12:00:01.400  billing generation 1  stable after 0.4 s  member left: b-1 at 10.0.0.8 (closed)"
        "; a-1 joined after 0.3 s; handed-out id b-1 0.2 s; a-1 synced after 0.1 s"
    )
    assert " billing  aborted after " in in_words(
        Event("rebalance", {**entry(1).to_json(), "generation": None, "ending": "aborted"})
    )


FAULT = {"id": "f-1", "fault": {"action": "error", "error": "NOT_COORDINATOR", "group": "g"}}


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        ("actor", {"at_ms": 0, "name": "log-0", "state": "down"}, "1970-01-01 00:00:00.000  log-0 is down"),
        ("actor", {"at_ms": 0, "name": "log-0", "state": "alive"}, "1970-01-01 00:00:00.000  log-0 serves"),
        (
            "fault",
            {"at_ms": 0, "what": "injected", "fault": FAULT},
            "1970-01-01 00:00:00.000  fault f-1 injected: error error=NOT_COORDINATOR group=g",
        ),
        (
            "fault",
            {"at_ms": 0, "what": "cleared", "fault": {"id": "f-2", "fault": {"action": "kill"}, "actor": "log-0"}},
            "1970-01-01 00:00:00.000  fault f-2 cleared: kill actor=log-0",
        ),
        (
            "lost",
            {"count": 3, "coordinator": None},
            "3 rebalances left out: they came faster than they were read",
        ),
        (
            "lost",
            {"count": None, "coordinator": "offsets-7"},
            "some rebalances of offsets-7 may be left out; muster groups history GROUP shows all",
        ),
        ("new", {"a": 1}, 'new: {"a": 1}'),
    ],
)
def test_events_in_a_line(kind: str, values: dict[str, Any], words: str) -> None:
    assert in_words(Event(kind, values)) == words

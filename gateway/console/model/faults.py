"""The form of a fault: its fields come from the kinds in ``muster.actors.faults.model``, which also check it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.actors.faults.apis import NAMED_BY
from muster.actors.faults.errors import InvalidFault
from muster.actors.faults.model import ACTIONS, FIELDS, Fault
from muster.gateway.console.model.marks import fault_text
from muster.gateway.console.model.snapshot import FaultRow
from muster.gateway.console.model.table import Column, Kind, Table

ACTOR_ACTIONS = ("kill", "pause", "continue", "slow")
REQUEST_ACTIONS = ("error", "delay", "drop", "no-answer", "close")
_HELD = frozenset({"pause", "slow"})
_SCOPES = ("group", "member", "client_id", "api", "topic", "partition", "gateway")
_NUMBERS = frozenset({"partition", "gateway", "delay_ms", "expires_ms"})
APIS = tuple(NAMED_BY)
ERRORS = (
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "REBALANCE_IN_PROGRESS",
    "UNKNOWN_MEMBER_ID",
    "ILLEGAL_GENERATION",
    "NOT_LEADER_OR_FOLLOWER",
    "OFFSET_OUT_OF_RANGE",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_SERVER_ERROR",
)
"""Frequent ones, to choose from; any name or number of Kafka's may be typed."""
COLUMNS = (
    Column("id", "Id"),
    Column("what", "Fault", Kind.NAME),
    Column("when", "When"),
    Column("matched", "Matched", Kind.COUNT),
    Column("hits", "Hits", Kind.COUNT),
    Column("injected_ms", "Since", Kind.TIME),
    Column("expires_at_ms", "Ends by itself", Kind.TIME),
)


def help_of(field: str) -> str:
    """Return the meaning of a field, or of an action."""
    return (ACTIONS.get(field) or FIELDS.get(field, "")).replace("`", "")


def fields_of(action: str) -> tuple[str, ...]:
    """Return the fields of the form for an action, in the order in which they are shown."""
    if action in ACTOR_ACTIONS:
        return (
            "actor",
            "group",
            *(["speed"] if action == "slow" else []),
            *(["expires_ms"] if action in _HELD else []),
        )
    own = {"error": ("error",), "delay": ("delay_ms",)}.get(action, ())
    return (*own, *_SCOPES, "when", "phase", "expires_ms")


def from_form(action: str, texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fault as ``POST /v1/faults`` takes it, from the texts of the form. Empty ones are left out.

    Raises InvalidFault, with a problem for each field.
    """
    values: dict[str, Any] = {"action": action}
    problems = []
    for name in fields_of(action):
        given = texts.get(name)
        given = given.strip() if isinstance(given, str) else given
        if given in (None, ""):
            continue
        try:
            values[name] = _value(name, given, texts)
        except ValueError:
            problems.append(f"{name}: {given!r} is not a number")
    if problems:
        raise InvalidFault(problems)
    return Fault.from_json(values).to_json()


def _value(name: str, given: Any, texts: Mapping[str, Any]) -> Any:
    if name in _NUMBERS:
        return int(given)
    if name == "speed":
        return float(given)
    if name == "when":
        match given:
            case "nth":
                return {"nth": int(texts.get("nth") or 0)}
            case "probability":
                return {"probability": float(texts.get("probability") or 0), "seed": int(texts.get("seed") or 0)}
    return given


def when_text(fault: Mapping[str, Any]) -> str:
    """Return which requests a fault acts on."""
    if fault.get("action") in ACTOR_ACTIONS:
        return "until cleared" if fault.get("action") in _HELD else "at once"
    match fault.get("when", "always"):
        case "once":
            when = "the first matching request"
        case {"nth": nth}:
            when = f"matching request number {nth}"
        case {"probability": probability}:
            when = f"each matching request with probability {probability}"
        case _:
            when = "every matching request"
    return f"{when}, {fault.get('phase', 'before')} it is served"


def table(faults: tuple[FaultRow, ...]) -> Table:
    """Return the faults in force."""
    rows = [
        {
            "id": fault.id,
            "what": fault_text(fault.fault, fault.actor),
            "when": when_text(fault.fault),
            "matched": fault.matched,
            "hits": fault.hits,
            "injected_ms": fault.injected_ms,
            "expires_at_ms": fault.expires_at_ms,
        }
        for fault in faults
    ]
    return Table(COLUMNS, rows)

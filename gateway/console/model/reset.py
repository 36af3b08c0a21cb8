"""A reset of a group's offsets: the request, and its effect in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.gateway.console.model.table import Column, Kind, Table
from muster.gateway.console.model.text import count, counted

KINDS = {
    "earliest": "The first message",
    "latest": "The end",
    "time_ms": "A time",
    "offset": "An offset",
    "shift": "So many messages on, or back",
    "undo": "Where they were before the last reset",
}
COLUMNS = (
    Column("topic", "Topic", Kind.NAME),
    Column("partition", "Partition", Kind.COUNT),
    Column("old_offset", "Now", Kind.COUNT),
    Column("offset", "Then", Kind.COUNT),
    Column("read_again", "Read again", Kind.COUNT),
    Column("skipped", "Skipped", Kind.COUNT),
    Column("note", "Note"),
)


def request(
    group: str, kind: str, number: float | None, time_ms: int | None, topic: str, partitions: str
) -> dict[str, Any]:
    """Return the body of ``POST /v1/groups/reset`` and of its plan. Raises ValueError with what is missing."""
    to: dict[str, Any]
    match kind:
        case "offset" | "shift":
            if number is None:
                raise ValueError("give a number")
            to = {kind: int(number)}
        case "time_ms":
            if time_ms is None:
                raise ValueError("give a time")
            to = {"time_ms": time_ms}
        case _:
            to = {kind: True}
    wanted = partitions.replace(" ", "")
    if wanted and not all(part.isascii() and part.isdigit() for part in wanted.split(",")):
        raise ValueError("partitions are numbers with commas between them, such as 0,1")
    topics = None if not topic or kind == "undo" else [f"{topic}:{wanted}" if wanted else topic]
    return {"group": group, "to": to, "topics": topics}


def plan_table(response: Mapping[str, Any]) -> Table:
    """Return the changes by partition."""
    return Table(COLUMNS, list(response.get("changes") or ()))


def summary(response: Mapping[str, Any]) -> str:
    """Return what the reset does, or did, in words."""
    if response.get("refused"):
        return str(response["refused"])
    if words := response.get("words"):
        return str(words)
    changes = response.get("changes") or ()
    again = sum(change.get("read_again") or 0 for change in changes)
    skipped = sum(change.get("skipped") or 0 for change in changes)
    done = "were moved" if response.get("executed") else "would move"
    effects = []
    if again:
        effects.append(f"{count(again)} messages {'will' if response.get('executed') else 'would'} be read again")
    if skipped:
        effects.append(f"{count(skipped)} {'will' if response.get('executed') else 'would'} be skipped")
    said = " and ".join(effects) or "nothing is read again or skipped"
    return f"The offsets of {counted(len(changes), 'partition')} {done}; {said}."

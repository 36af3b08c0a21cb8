"""The table of the programs that a run of the checks has run on both servers, for the end of its output."""

from __future__ import annotations

import json
from collections.abc import Iterable

PROPERTY = "program"
"""Property of a test: program, server, result and duration in s, as JSON."""

_HEAD = ["| program | on Muster | on Kafka | s, Muster and Kafka |", "| --- | --- | --- | --- |"]


def rows(properties: Iterable[tuple[str, object]]) -> list[str]:
    """Lines of a Markdown table; none without programs. A result that both servers have in common is there once."""
    found: dict[str, dict[str, tuple[str, int]]] = {}
    for name, value in properties:
        if name == PROPERTY:
            program, server, result, seconds = json.loads(str(value))
            found.setdefault(program, {})[server] = (result, seconds)
    lines = [_row(program, found[program]) for program in sorted(found)]
    return _HEAD + lines if lines else []


def _row(program: str, by_server: dict[str, tuple[str, int]]) -> str:
    muster, muster_s = by_server.get("muster", ("not run", 0))
    kafka, kafka_s = by_server.get("kafka", ("not run", 0))
    return f"| {program} | {muster} | {'the same' if kafka == muster else kafka} | {muster_s}, {kafka_s} |"

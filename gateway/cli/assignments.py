"""What a member was assigned: opaque bytes, whose meaning the protocol type of its group says."""

from __future__ import annotations

import base64
from typing import Any

from actors.group import connect_protocol, consumer_protocol
from gateway.cli.offsets import Partition, name_of
from gateway.cli.output import counted

CONSUMER = consumer_protocol.PROTOCOL_TYPE


def partitions(protocol_type: str | None, assignment: bytes) -> list[Partition]:
    """What a consumer reads; of a member of another protocol type, none."""
    return sorted(consumer_protocol.assigned_partitions(assignment) or ()) if protocol_type == CONSUMER else []


def as_json(protocol_type: str | None, assignment: bytes) -> Any:
    """Partitions; Connect's connectors and tasks; of anything else the bytes, as ``{"base64": ...}``."""
    if protocol_type == CONSUMER:
        return [{"topic": topic, "partition": number} for topic, number in partitions(protocol_type, assignment)]
    if (tasks := _tasks(protocol_type, assignment)) is not None:
        return [{"connector": connector, "task": task} for connector, task in tasks]
    return {"base64": base64.b64encode(assignment).decode()}


def in_words(protocol_type: str | None, assignment: bytes) -> str | None:
    """The same in a line: ``t-0, t-1``; None for nothing."""
    if protocol_type == CONSUMER:
        return ", ".join(map(name_of, partitions(protocol_type, assignment))) or None
    if (tasks := _tasks(protocol_type, assignment)) is not None:
        return ", ".join(name if task is None else f"{name}-{task}" for name, task in tasks) or None
    return counted(len(assignment), "byte") if assignment else None


def _tasks(protocol_type: str | None, assignment: bytes) -> list[tuple[str, int | None]] | None:
    return connect_protocol.assigned_tasks(assignment) if protocol_type == connect_protocol.PROTOCOL_TYPE else None

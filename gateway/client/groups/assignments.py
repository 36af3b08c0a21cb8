"""The assignment of a member: opaque bytes, whose meaning the protocol type of its group defines."""

from __future__ import annotations

import base64
from typing import Any, Protocol

from muster.actors.group.codec import connect_protocol, consumer_protocol
from muster.actors.runtime.words import counted
from muster.gateway.client.groups.offsets import Partition, name_of

CONSUMER = consumer_protocol.PROTOCOL_TYPE


class Member(Protocol):
    """A member of a group, from DescribeGroups or from a record."""

    @property
    def subscription(self) -> bytes: ...

    @property
    def assignment(self) -> bytes: ...


def partitions(protocol_type: str | None, member: Member) -> list[Partition]:
    """Return the partitions of a consumer; none for a member of another protocol type."""
    return sorted(consumer_protocol.assigned_partitions(member.assignment) or ()) if protocol_type == CONSUMER else []


def as_json(protocol_type: str | None, member: Member) -> Any:
    """Return partitions; Connect's connectors and tasks; for anything else the bytes, as ``{"base64": ...}``."""
    if protocol_type == CONSUMER:
        return [{"topic": topic, "partition": number} for topic, number in partitions(protocol_type, member)]
    if (tasks := _tasks(protocol_type, member)) is not None:
        return [{"connector": connector, "task": task} for connector, task in tasks]
    return {"base64": base64.b64encode(member.assignment).decode()}


def in_words(protocol_type: str | None, member: Member) -> str | None:
    """Return the assignment in one line: ``t-0, t-1``; None if there is nothing."""
    if protocol_type == CONSUMER:
        return ", ".join(map(name_of, partitions(protocol_type, member))) or None
    if (tasks := _tasks(protocol_type, member)) is not None:
        return ", ".join(name if task is None else f"{name}-{task}" for name, task in tasks) or None
    return counted(len(member.assignment), "byte") if member.assignment else None


def _tasks(protocol_type: str | None, member: Member) -> list[tuple[str, int | None]] | None:
    if protocol_type != connect_protocol.PROTOCOL_TYPE:
        return None
    return connect_protocol.assigned_tasks(member.subscription, member.assignment)

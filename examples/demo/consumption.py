"""The output of ``muster spark consumption --format json`` about the demo's run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

T = TypeVar("T")

BUCKET_SECONDS = 5
"""Value of ``--bucket``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Amounts sent in one time bucket; ``group`` None: not attributed."""

    bucket: datetime
    """Start of the bucket, timezone-aware."""
    group: str | None
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    group: str
    topic: str
    partition: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTotal:
    group: str
    messages: int
    bytes: int
    distinct: int
    """Number of messages that were sent to the group at least once."""
    resent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayTotal:
    """Amounts that one gateway sent to one group, over all its processes; ``group`` None: not attributed."""

    gateway: int
    group: str | None
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattributed:
    reason: str | None
    topic: str
    client_id: str | None
    host: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """Result of the job."""

    sent: tuple[Sent, ...] = ()
    """In steps of BUCKET_SECONDS."""
    partitions: tuple[GroupPartition, ...] = ()
    groups: tuple[GroupTotal, ...] = ()
    gateways: tuple[GatewayTotal, ...] = ()
    unattributed: tuple[Unattributed, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> Consumption:
        """Parse the command's output. KeyError, TypeError or ValueError for anything else."""
        sections = json.loads(text)["jobs"]["consumption"]
        return cls(
            sent=tuple(_rows(Sent, sections["per_bucket"])),
            partitions=tuple(_rows(GroupPartition, sections["partitions"])),
            groups=tuple(_rows(GroupTotal, sections["groups"])),
            gateways=tuple(_rows(GatewayTotal, sections["gateways"])),
            unattributed=tuple(_rows(Unattributed, sections["unattributed"])),
        )


def _rows(kind: type[T], section: dict[str, Any]) -> Iterator[T]:
    """Yield the rows, restricted to the columns that the kind has."""
    if not section["complete"]:
        raise ValueError(f"not all rows are there: {section['title']}")
    for row in section["rows"]:
        values = {field.name: row[field.name] for field in fields(kind)}  # type: ignore[arg-type]
        if "bucket" in values:
            values["bucket"] = datetime.fromisoformat(values["bucket"])
        yield kind(**values)

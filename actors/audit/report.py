"""What the audit says of one group's partition, and of itself; goes from its process to every gateway."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Cause(StrEnum):
    """Why attributed and implied bytes differ; see :mod:`muster.actors.audit`."""

    PREFETCH = "prefetch"
    REREAD = "reread"
    RETENTION = "retention"
    WAITING = "waiting"
    UNKNOWN = "unknown"
    ADMIN_COMMIT = "admin_commit"
    RESET = "reset"
    MISLABELLED = "mislabelled"
    LOST = "lost"


MORE = (Cause.PREFETCH, Cause.REREAD, Cause.RETENTION)
"""More was attributed than is implied by commits. All other causes: less."""
UNEXPLAINED = (Cause.MISLABELLED, Cause.LOST)


@dataclass(frozen=True, slots=True)
class Row:
    """One group's partition, since the audit's process first heard of it."""

    group: str
    topic: str
    partition: int
    implied_bytes: int
    attributed_bytes: int
    drift_bytes: dict[Cause, int]
    """Without those that are 0. Only ``retention`` can be negative. ``prefetch`` and ``waiting`` are of now."""
    removed_offsets: int
    """Committed past and not sent for the group, and gone from the log before it was measured."""

    @property
    def unexplained_bytes(self) -> int:
        return sum(self.drift_bytes.get(cause, 0) for cause in UNEXPLAINED)

    def to_json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "topic": self.topic,
            "partition": self.partition,
            "implied_bytes": self.implied_bytes,
            "attributed_bytes": self.attributed_bytes,
            "drift_bytes": {cause.value: size for cause, size in self.drift_bytes.items()},
            "removed_offsets": self.removed_offsets,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """After a round."""

    rounds: int = 0
    """Of the audit's process."""
    incomplete_rounds: int = 0
    """In which not all gateways and coordinators were heard, so that nothing was judged."""
    left_out: int = 0
    """Groups' partitions that there was no room for, each time they came."""
    at_ms: int | None = None
    """When the last round ended, ms since the epoch; None before it."""
    rows: tuple[Row, ...] = field(default=(), repr=False)

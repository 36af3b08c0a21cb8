"""Report of the audit on each group's partition, and on itself; its process sends it to every gateway."""

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
    MISLABELLED_ELSEWHERE = "mislabelled_elsewhere"
    LOST = "lost"


MORE = (Cause.PREFETCH, Cause.REREAD, Cause.RETENTION, Cause.MISLABELLED)
"""Causes of more attributed bytes than commits imply. All other causes: of fewer."""
UNEXPLAINED = (Cause.MISLABELLED, Cause.MISLABELLED_ELSEWHERE, Cause.LOST)


@dataclass(frozen=True, slots=True)
class Row:
    """One group's partition, since the audit's process first learned of it."""

    group: str
    topic: str
    partition: int
    implied_bytes: int
    attributed_bytes: int
    drift_bytes: dict[Cause, int]
    """Without causes that are 0. Only ``retention`` can be negative. ``prefetch`` and ``waiting`` are current."""
    removed_offsets: int
    """Offsets that were committed past, not sent for the group, and removed from the log before they were measured."""

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
    """The report after a round."""

    rounds: int = 0
    """Rounds of the audit's process."""
    incomplete_rounds: int = 0
    """Rounds in which not all gateways and coordinators responded, so nothing was judged."""
    left_out: int = 0
    """How often there was no room for a group's partition."""
    at_ms: int | None = None
    """Time of the last round, ms since the epoch; None before the first."""
    rows: tuple[Row, ...] = field(default=(), repr=False)

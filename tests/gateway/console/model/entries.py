"""Entries of the journal for tests."""

from __future__ import annotations

from typing import Any

from muster.actors.group.events import Cause
from muster.actors.group.types import Who
from muster.actors.tables.rebalance_entry import (
    Ending,
    Pause,
    PauseSummary,
    RebalanceEntry,
    RebalanceProtocol,
    Wait,
    Waits,
)


def who(name: str = "c") -> Who:
    """Return a member with that client id."""
    return Who(f"{name}-id", name, "10.0.0.1", None)  # type: ignore[arg-type]


def entry(number: int = 1, group: str = "g", began_ms: int = 0, **changed: Any) -> RebalanceEntry:
    """Return a rebalance of three seconds: two to join, one to sync, with one partition paused."""
    values: dict[str, Any] = {
        "group": group,
        "offsets_partition": 7,
        "epoch": 1,
        "number": number,
        "from_state": "Stable",
        "previous_generation": 1,
        "generation": 2,
        "began_ms": began_ms,
        "joined_ms": began_ms + 2_000,
        "stable_ms": began_ms + 3_000,
        "ended_ms": began_ms + 3_000,
        "ending": Ending.STABLE,
        "cause": Cause.MEMBER_JOINED,
        "triggered_by": who("new"),
        "reason": None,
        "protocol_type": "consumer",
        "protocol": "range",
        "rebalance_protocol": RebalanceProtocol.EAGER,
        "leader": "c-id",
        "members_before": 1,
        "members_after": 2,
        "join_waits": Waits((Wait(who("slow"), 2_000, 2_000),)),
        "sync_waits": Waits(),
        "pending": (),
        "added": (who("new"),),
        "added_left_out": 0,
        "gone": (),
        "gone_left_out": 0,
        "consumption_pauses": PauseSummary(assigned=2, count=1, lost_ms=3_000, partitions=(Pause("t", 0, 3_000),)),
    }
    return RebalanceEntry(**values | changed)

"""Entries for tests of the table ``rebalances``. As a process it writes them until it is killed:

``python -m tests.tables.rebalances DIRECTORY FIRST_NUMBER`` prints each entry's number after the store took it, and
flushes without pause in a second thread, so that a kill at any moment is likely to hit a flush.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from muster.actors.group.events import Cause, PendingEnd, Removal
from muster.actors.group.types import MemberId, Who
from muster.actors.tables.rebalance_entry import (
    Ending,
    Gone,
    Pause,
    PauseSummary,
    PendingWait,
    RebalanceEntry,
    RebalanceProtocol,
    Wait,
    Waits,
)
from muster.actors.tables.rebalances import RebalanceStore, encode

NOON_MS = 1_700_049_600_000  # 2023-11-15T12:00:00Z
A = Who(MemberId("a-1"), "a", "10.0.0.7", None)
B = Who(MemberId("b-1"), None, "10.0.0.8", "ib")


def entry(number: int, **changes: Any) -> RebalanceEntry:
    began_ms = NOON_MS + number * 1000
    values: dict[str, Any] = {
        "group": "billing",
        "offsets_partition": 7,
        "epoch": 1,
        "number": number,
        "from_state": "Stable",
        "previous_generation": number - 1,
        "generation": number,
        "began_ms": began_ms,
        "joined_ms": began_ms + 300,
        "stable_ms": began_ms + 400,
        "ended_ms": began_ms + 400,
        "ending": Ending.STABLE,
        "cause": Cause.MEMBER_LEFT,
        "triggered_by": B,
        "reason": "closed",
        "protocol_type": "consumer",
        "protocol": "range",
        "rebalance_protocol": RebalanceProtocol.EAGER,
        "leader": A.member_id,
        "members_before": 2,
        "members_after": 1,
        "join_waits": Waits((Wait(A, 300, 300), Wait(B, None, 100)), 3),
        "sync_waits": Waits((Wait(A, 100, 100),)),
        "pending": (PendingWait(B, 200, PendingEnd.EXPIRED), PendingWait(A, 11, None)),
        "added": (A,),
        "added_left_out": 4,
        "gone": (Gone(B, None, "closed"), Gone(A, Removal.SESSION_EXPIRED, None)),
        "gone_left_out": 0,
        "consumption_pauses": PauseSummary(
            assigned=3, count=2, lost_ms=800, partitions=(Pause("t", 0, 400), Pause("t", 1, 400))
        ),
    }
    return RebalanceEntry(**values | changes)


def aborted(number: int, **changes: Any) -> RebalanceEntry:
    """Return an entry in which everything optional is missing."""
    nothing = dict.fromkeys(
        ("generation", "joined_ms", "stable_ms", "triggered_by", "reason", "leader", "members_after")
    )
    kinds = dict.fromkeys(("protocol_type", "protocol", "rebalance_protocol", "consumption_pauses"))
    lists: dict[str, Any] = {"pending": (), "added": (), "gone": (), "join_waits": Waits(), "sync_waits": Waits()}
    return entry(number, ending=Ending.ABORTED, **nothing, **kinds, **lists, **changes)


def main(directory: Path, first: int) -> None:
    store = RebalanceStore(directory, 7, now_ms=lambda: NOON_MS)

    def flush_for_ever() -> None:
        while True:
            store.flush()

    threading.Thread(target=flush_for_ever, daemon=True).start()
    for number in range(first, first + 1_000_000):
        made = entry(number)
        store.add(made, encode(made))
        os.write(1, b"%d\n" % number)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

"""One run of the demo, recorded in ``recorded_run.json``: without waits for records below 0.25 s."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from examples.demo.arrivals import Arrived
from examples.demo.checks import Commit, GroupSeen, Killed, MemberSeen, Membership, Seen
from examples.demo.consumption import Consumption

_FILE = Path(__file__).with_name("recorded_run.json")
_KEPT = Membership(generation=1, members=("a", "b"))


def recorded() -> Seen:
    """Return that run; its counters, generations and committed offsets are made up so that all checks are ok."""
    run = json.loads(_FILE.read_text())
    ends = {int(partition): end for partition, end in run["ends"].items()}
    consumption = Consumption.from_json(json.dumps({"jobs": run["jobs"]}))
    actor, gateway = Killed(**run["actor"]), Killed(**run["gateway"])
    return Seen(
        rows=run["rows"],
        delivered=run["rows"],
        undelivered=0,
        ends=ends,
        groups={name: _group(group, ends, run["rows"]) for name, group in run["groups"].items()},
        commits=[
            Commit(at_s=at_s, group=group, partition=partition, offset=end - before)
            for at_s, before in ((actor.at_s + 0.5, 2), (actor.at_s + 1.0, 1), (gateway.at_s + 5.0, 0))
            for group in run["groups"]
            for partition, end in ends.items()
        ],
        actor=actor,
        actor_group="billing",
        gateway=gateway,
        first_life={},
        counted={(row.gateway, str(row.group)): (row.messages, row.bytes) for row in consumption.gateways},
        consumption=consumption,
        started_s=run["started_s"],
        acknowledged=Arrived.from_json(run["acknowledged"]),
        evidence_bytes={(group, evidence): size for group, evidence, size in run["evidence_bytes"]},
    )


def _group(group: dict[str, Any], ends: dict[int, int], rows: int) -> GroupSeen:
    """Return a group whose first member has received everything."""
    everything = ((1 << rows) - 1).to_bytes((rows + 7) // 8, "little")
    members = [
        MemberSeen(
            exit_code=0,
            total=0 if number else rows,
            intervals={} if number else {partition: [(0, end - 1)] for partition, end in ends.items()},
            rows=b"" if number else everything,
            arrived=Arrived.from_json(arrived),
        )
        for number, arrived in enumerate(group["arrived"])
    ]
    return GroupSeen(
        client=group["client"],
        expected_members=2,
        members=members,
        before=_KEPT,
        after=_KEPT,
    )

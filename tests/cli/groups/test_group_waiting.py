"""Output about waiting rebalances."""

from __future__ import annotations

from dataclasses import replace

from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId, MemberId, Who
from muster.actors.group.watchdog import RebalanceWait
from muster.gateway.cli.groups.waiting import rows

WAIT = RebalanceWait(
    group=GroupId("g"),
    state=GroupState.PREPARING_REBALANCE,
    generation=3,
    since_ms=10_000,
    deadline_ms=25_500,
    initial_delay=False,
    leader=None,
    members=(),
    pending=(),
)
HEAD = ("g", "PreparingRebalance", "2.0", "13.5")


def who(member_id: str, instance: str | None = None) -> Who:
    return Who(member_id=MemberId(member_id), client_id="c", host="h", group_instance_id=instance)


def test_a_row_for_each_who_is_awaited() -> None:
    wait = replace(WAIT, members=(who("a"), who("b", "one")), pending=(who("new"),))
    assert rows(wait.to_json(), 12_000) == [
        (*HEAD, "a", "c", "h", None),
        (*HEAD, "b", "c", "h", "one"),
        (*HEAD, "new", "c", "h", None),
    ]


def test_many_are_counted() -> None:
    wait = replace(WAIT, members=tuple(who(f"m{number}") for number in range(5000)))
    found = rows(wait.to_json(), 12_000)
    assert found[-1] == (*HEAD, f"and {5001 - len(found)} more", None, None, None)


def test_when_nobody_is_awaited() -> None:
    assert rows(WAIT.to_json(), 12_000) == [(*HEAD, "the log", None, None, None)]
    delayed = replace(WAIT, initial_delay=True, deadline_ms=None)
    assert rows(delayed.to_json(), 12_000) == [(*HEAD[:3], None, "more members", None, None, None)]
    assert rows(WAIT.to_json(), 30_000)[0][2:4] == ("20.0", "0.0")

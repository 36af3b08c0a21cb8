"""Rebalances, one after another: every member joins with another subscription as soon as it has its assignment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.comparison import groups, requests
from benchmarks.comparison.load import Plan, Step, Take
from benchmarks.comparison.rows import Goal, Measure, Measured, Row, measured
from benchmarks.comparison.servers import Server
from benchmarks.members import assignment, subscription
from muster.actors.wire.kafka.codec import ErrorCode

_TOPIC = "orders"
_ALLOWED = (int(ErrorCode.rebalance_in_progress),)
"""Allowed from SyncGroup, if another member that already has its assignment joins again before."""


@contextmanager
def _again_and_again(size: int, count: int, muster: Server, kafka: Server) -> Iterator[Measure]:
    connections = {
        server.name: [
            (server.address, steps) for group in groups.large(server, size, count, _TOPIC) for steps in _steps(group)
        ]
        for server in (muster, kafka)
    }

    def measure(server: Server, seconds: float) -> Measured:
        found = measured(server, Plan(connections[server.name], seconds), allowed=_ALLOWED)
        per_second = found["per_second"] / (2 * size)  # a JoinGroup and a SyncGroup of each member
        return {
            "rebalances_per_second": per_second,
            "rebalance_ms": count / per_second * 1e3,
            "cpu_us": found["cpu_us"],
            "load_cpu_us": found["load_cpu_us"],
        }

    yield measure


def _steps(group: list[groups.Stable]) -> Iterator[list[Step]]:
    """Yield two rebalances of each member: a subscription that has not changed would cause none. The leader is the
    first."""
    given = [(member.member_id, assignment(_TOPIC, [0])) for member in group]
    for number, member in enumerate(group):
        sync = requests.sync(member.group, 0, member.member_id, given if number == 0 else ())
        put_at = requests.sync_generation_at(member.group)
        steps = []
        for turn, padding in enumerate((60, 61)):
            metadata = subscription(_TOPIC, padding)
            join = requests.join(member.group, member.member_id, metadata, groups.SESSION_TIMEOUT_MS)
            take = Take(requests.JOINED_GENERATION_AT, 4, into=2 * turn + 1, put_at=put_at)
            steps += [Step(join, requests.ERROR_AT, take), Step(sync, requests.ERROR_AT)]
        yield steps


def _one_group(size: int) -> Row:
    return Row(
        f"rebalance-{size}",
        f"Rebalance of {size:,} members: all join and sync",
        partial(_again_and_again, size, 1),
        (Goal("rebalance_ms", at_most=0.5),),
        steady="rebalances_per_second",
    )


ROWS = (
    _one_group(10),
    _one_group(100),
    _one_group(1_000),
    Row(
        "rebalance-200x5",
        "200 groups of 5 members that rebalance all the time",
        partial(_again_and_again, 5, 200),
        (Goal("rebalances_per_second", at_least=1.5),),
        steady="rebalances_per_second",
    ),
)

"""Cost of a request when there is ten times as much of everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.comparison import groups, requests, topics
from benchmarks.comparison.heartbeats import heartbeat
from benchmarks.comparison.load import Plan, Step
from benchmarks.comparison.rows import Goal, Measure, Measured, Row, measured
from benchmarks.comparison.servers import Server

_TIMES = 10
_CONNECTIONS = 50
_RATE = 2_000.0
"""Requests per second, which is well below what either server can do."""
_RECORD = 1_024

_Connections = list[tuple[str, list[Step]]]


@contextmanager
def _growing(make: Callable[[Server, int], _Connections], few: int, muster: Server, kafka: Server) -> Iterator[Measure]:
    """Keep both sizes at once on each server, the small one first. The first request of each kind is not measured."""
    prepared = {server.name: [make(server, count) for count in (few, few * _TIMES)] for server in (muster, kafka)}

    def measure(server: Server, seconds: float) -> Measured:
        before, after = (_cost(server, connections, seconds / 2) for connections in prepared[server.name])
        return {"growth": after / before, "cpu_us": after}

    yield measure


def _cost(server: Server, connections: _Connections, seconds: float) -> float:
    requests_in_turn = sum(len(steps) for _, steps in connections)
    plan = Plan(connections, seconds, warm_up_s=requests_in_turn / _RATE, in_flight=16, rate=_RATE)
    return measured(server, plan)["cpu_us"]


def _groups(server: Server, count: int) -> _Connections:
    """Send heartbeats of all groups in turn, over the same number of connections."""
    return _spread(server, [heartbeat(stable) for stable in groups.alone(server, count)])


def _members(server: Server, count: int) -> _Connections:
    """Send heartbeats of all members of one group."""
    (group,) = groups.large(server, count)
    return _spread(server, [heartbeat(stable) for stable in group])


def _connections(server: Server, count: int) -> _Connections:
    return [(server.address, [heartbeat(stable)]) for stable in groups.alone(server, count)]


def _partitions(server: Server, count: int) -> _Connections:
    """Fetch one partition of a topic that has so many."""
    topic = topics.create(server, count)
    return _fetches(server, topic)


def _topics(server: Server, count: int) -> _Connections:
    """Fetch one topic of so many."""
    *_, topic = [topics.create(server, 1) for _ in range(count)]
    return _fetches(server, topic)


def _fetches(server: Server, topic: str) -> _Connections:
    topics.fill(server, topic, [0], _RECORD, 1)
    step = Step(requests.fetch(topic, 0, 0, 2 * _RECORD), requests.fetch_error_at(topic))
    return _spread(server, [step] * _CONNECTIONS)


def _spread(server: Server, steps: list[Step]) -> _Connections:
    return [(server.address, steps[number::_CONNECTIONS]) for number in range(min(_CONNECTIONS, len(steps)))]


def _row(what: str, make: Callable[[Server, int], _Connections], few: int) -> Row:
    return Row(
        f"growth-{what}",
        f"Processor time per request, {few * _TIMES:,} {what} to {few:,}",
        partial(_growing, make, few),
        (Goal("growth", at_most=1.2, of_kafka=False),),
        steady="cpu_us",
        seconds=6.0,
    )


ROWS = (
    _row("groups", _groups, 400),
    _row("members", _members, 100),
    _row("connections", _connections, 100),
    _row("partitions", _partitions, 10),
    _row("topics", _topics, 10),
)

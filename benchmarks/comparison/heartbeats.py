"""Heartbeats: as many as there can be, and their latency at half of what Kafka can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from benchmarks.comparison import groups, requests
from benchmarks.comparison.load import Plan, Step
from benchmarks.comparison.rows import Goal, Measure, Measured, Row, measured
from benchmarks.comparison.servers import Server

_FIND_RATE_S = 3.0

_Connections = list[tuple[str, list[Step]]]


def connections_of(server: Server, count: int) -> _Connections:
    """Return one connection for each of so many new groups."""
    return [(server.load_address, [heartbeat(stable)]) for stable in groups.alone(server, count)]


def heartbeat(stable: groups.Stable) -> Step:
    """Return a heartbeat of that member."""
    frame = requests.heartbeat(stable.group, stable.generation, stable.member_id)
    return Step(frame, error_at=requests.ERROR_AT)


@contextmanager
def _at_most(connections: int, in_flight: int, muster: Server, kafka: Server) -> Iterator[Measure]:
    prepared = {server.name: connections_of(server, connections) for server in (muster, kafka)}

    def measure(server: Server, seconds: float) -> Measured:
        return measured(server, Plan(prepared[server.name], seconds, in_flight=in_flight))

    yield measure


@contextmanager
def _at_half(connections: int, muster: Server, kafka: Server) -> Iterator[Measure]:
    with _at_most(connections, 1, muster, kafka) as measure:
        for _ in range(3):
            rate = measure(kafka, _FIND_RATE_S)["per_second"] / 2
    prepared = {server.name: connections_of(server, connections) for server in (muster, kafka)}

    def measure_at_rate(server: Server, seconds: float) -> Measured:
        return measured(server, Plan(prepared[server.name], seconds, in_flight=64, rate=rate))

    yield measure_at_rate


def _row(
    name: str, title: str, open_row: Callable[[Server, Server], AbstractContextManager[Measure]], *goals: Goal
) -> Row:
    return Row(name, f"Heartbeat, {title}", open_row, goals)


_TWICE = Goal("per_second", at_least=2)
_NO_WORSE = (Goal("p99_us", at_most=1), Goal("p999_us", at_most=1))

ROWS = (
    _row("heartbeat-10", "10 connections", partial(_at_most, 10, 1), _TWICE),
    _row(
        "heartbeat-100",
        "100 connections",
        partial(_at_most, 100, 1),
        _TWICE,
        Goal("cpu_us", at_most=25, of_kafka=False),
    ),
    _row("heartbeat-500", "500 connections", partial(_at_most, 500, 1), _TWICE),
    _row("heartbeat-50x20", "50 connections, 20 in flight", partial(_at_most, 50, 20), _TWICE),
    _row("heartbeat-latency", "100 connections, half of Kafka's rate", partial(_at_half, 100), *_NO_WORSE),
)

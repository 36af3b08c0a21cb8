"""Commits and fetches of offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.comparison import groups, requests, topics
from benchmarks.comparison.load import Plan, Step
from benchmarks.comparison.rows import Goal, Measure, Measured, Row, measured
from benchmarks.comparison.servers import Server

_CONNECTIONS = 50
_FETCHED = 100

_StepOf = Callable[[groups.Stable, str], Step]


@contextmanager
def _each(step: _StepOf, partitions: int, synced: bool, muster: Server, kafka: Server) -> Iterator[Measure]:
    """Measure groups of one member on each connection, which sends the step again and again."""
    connections = {}
    for server in (muster, kafka):
        server.sync(every_append=synced)
        topic = topics.create(server, partitions)
        stable = groups.alone(server, _CONNECTIONS, topic)
        connections[server.name] = [(server.address, [step(each, topic)]) for each in stable]

    def measure(server: Server, seconds: float) -> Measured:
        return measured(server, Plan(connections[server.name], seconds))

    yield measure


@contextmanager
def _fetching(muster: Server, kafka: Server) -> Iterator[Measure]:
    connections = {}
    for server in (muster, kafka):
        topic = topics.create(server, _FETCHED)
        stable = groups.alone(server, _CONNECTIONS, topic)
        commits = [(server.address, [_commit(_FETCHED, each, topic)]) for each in stable]
        measured(server, Plan(commits, 1.0))
        connections[server.name] = [(server.address, [_fetch(each, topic)]) for each in stable]

    def measure(server: Server, seconds: float) -> Measured:
        return measured(server, Plan(connections[server.name], seconds))

    yield measure


def _commit(partitions: int, stable: groups.Stable, topic: str) -> Step:
    frame = requests.commit(stable.group, stable.generation, stable.member_id, topic, range(partitions), 1_000)
    return Step(frame, error_at=requests.commit_error_at(topic))


def _fetch(stable: groups.Stable, topic: str) -> Step:
    frame = requests.offset_fetch(stable.group, topic, range(_FETCHED))
    return Step(frame, error_at=requests.offset_fetch_error_at(stable.group, topic))


def _commits(partitions: int, *, synced: bool) -> Row:
    kind = "synced" if synced else "Kafka not synced"  # Muster syncs every commit
    return Row(
        f"commit-{partitions}" + ("" if synced else "-not-synced"),
        f"OffsetCommit of {partitions} partition{'s' if partitions > 1 else ''}, {_CONNECTIONS} connections, {kind}",
        partial(_each, partial(_commit, partitions), partitions, synced),
        (Goal("per_second", at_least=2 if synced else 1),),
    )


ROWS = (
    _commits(1, synced=True),
    _commits(1, synced=False),
    _commits(50, synced=True),
    _commits(50, synced=False),
    Row(
        "offset-fetch",
        f"OffsetFetch of {_FETCHED} partitions, {_CONNECTIONS} connections",
        _fetching,
        (Goal("per_second", at_least=1),),
    ),
)

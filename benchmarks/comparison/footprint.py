"""Cost of the servers at rest, for their start, and for connections that do next to nothing."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.comparison import groups, servers
from benchmarks.comparison.heartbeats import heartbeat
from benchmarks.comparison.load import Plan
from benchmarks.comparison.rows import Goal, Measure, Measured, Row, measured
from benchmarks.comparison.servers import PARTITIONS, Server

_MIB = 1 << 20
_HEARTBEAT_S = 3.0
"""The default of Java's consumer."""


@contextmanager
def _resting(muster: Server, kafka: Server) -> Iterator[Measure]:
    """Measure with every coordinator started, and no connection."""
    for server in (muster, kafka):
        groups.alone(server, PARTITIONS)

    def measure(server: Server, seconds: float) -> Measured:
        before = server.cpu_s()
        time.sleep(seconds)
        used_s = {role: after - before[role] for role, after in server.cpu_s().items()}
        memory = server.pss_bytes()
        return {
            "cpu_percent": sum(used_s.values()) / seconds * 100,
            "pss_mib": sum(memory.values()) / _MIB,
            "coordinator_pss_mib": memory.get("offsets", 0) / PARTITIONS / _MIB,
        }

    yield measure


@contextmanager
def _starting(muster: Server, kafka: Server) -> Iterator[Measure]:
    def measure(server: Server, seconds: float) -> Measured:
        with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
            began_s = time.monotonic()
            with servers.started(server.name, Path(folder)) as running:
                return {"ready_s": time.monotonic() - began_s, "cpu_s": sum(running.cpu_s().values())}

    yield measure


@contextmanager
def _idle(members: int, muster: Server, kafka: Server) -> Iterator[Measure]:
    """Measure members of one group each, with a connection each, which send a heartbeat every three seconds.

    Memory counts from before the first round: a server keeps what a round's connections have taken for the next ones.
    """
    connections = {
        server.name: [(server.address, [heartbeat(stable)]) for stable in groups.alone(server, members)]
        for server in (muster, kafka)
    }

    before = {server.name: sum(server.pss_bytes().values()) for server in (muster, kafka)}

    def measure(server: Server, seconds: float) -> Measured:
        after: list[int] = []
        found = measured(
            server,
            Plan(connections[server.name], seconds, warm_up_s=_HEARTBEAT_S, rate=members / _HEARTBEAT_S),
            ended=lambda: after.append(sum(server.pss_bytes().values())),
        )
        return {**found, "kib_per_connection": (after[0] - before[server.name]) / members / 1024}

    yield measure


def _members(count: int) -> Row:
    return Row(
        f"idle-{count}",
        f"{count:,} members that only heartbeat",
        partial(_idle, count),
        (Goal("kib_per_connection", at_most=1),),
        steady="",  # to connect so many takes Kafka a minute each time
        seconds=2 * _HEARTBEAT_S,
    )


STARTING = Row(
    "start",
    "From the command to ready",
    _starting,
    (Goal("ready_s", at_most=8, of_kafka=False), Goal("cpu_s", at_most=10, of_kafka=False)),
    steady="",
    starts_servers=True,
)

RESTING = Row(
    "rest",
    "At rest, nothing connected",
    _resting,
    (
        Goal("cpu_percent", at_most=3, of_kafka=False),
        Goal("pss_mib", at_most=1024, of_kafka=False),
        Goal("coordinator_pss_mib", at_most=60, of_kafka=False),
    ),
    steady="",
    seconds=10.0,
)

IDLE = (_members(5_000), _members(10_000))

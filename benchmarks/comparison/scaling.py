"""Gain from a second core, with a second gateway on it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from benchmarks.comparison import groups, servers
from benchmarks.comparison.heartbeats import heartbeat
from benchmarks.comparison.load import Plan, Step
from benchmarks.comparison.rows import Goal, Measure, Measured, Row, measured
from benchmarks.comparison.servers import Server

_CONNECTIONS = 100
_CORES = 2

_Connections = list[tuple[str, list[Step]]]


@contextmanager
def _scaling(_: Server, __: Server) -> Iterator[Measure]:
    """Measure everything on one core, and on two; the load generator is on the same cores."""
    cores = sorted(os.sched_getaffinity(0))[:_CORES]
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-bench-"))
        started = [
            stack.enter_context(servers.muster(Path(folder), gateways=_CORES)),
            stack.enter_context(servers.kafka()),
        ]
        stable = {server.name: groups.alone(server, _CONNECTIONS) for server in started}
        running = {server.name: server for server in started}

        def measure(server: Server, seconds: float) -> Measured:
            server = running[server.name]
            rates = []
            for used in (cores[:1], cores):
                addresses = server.addresses[: len(used)]
                plan = Plan(_spread(addresses, [heartbeat(each) for each in stable[server.name]]), seconds, seconds / 3)
                with _pinned(server, used):
                    rates.append(measured(server, plan)["per_second"])
            return {"scale": rates[1] / rates[0], "per_second": rates[1]}

        yield measure


def _spread(addresses: Sequence[str], steps: Sequence[Step]) -> _Connections:
    return [(addresses[number % len(addresses)], [step]) for number, step in enumerate(steps)]


@contextmanager
def _pinned(server: Server, cores: Sequence[int]) -> Iterator[None]:
    """Run the server and what this process starts on these cores only, each gateway on one of them."""
    before = os.sched_getaffinity(0)
    for role, processes in server.processes().items():
        for number, process in enumerate(processes):
            _pin(process, [cores[number % len(cores)]] if role == "gateway" else cores)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _pin(process: psutil.Process, cores: Sequence[int]) -> None:
    for thread in process.threads():
        try:
            os.sched_setaffinity(thread.id, cores)
        except ProcessLookupError:
            continue


ROW = Row(
    "cores",
    f"Heartbeat, {_CONNECTIONS} connections: two cores (and gateways) to one",
    _scaling,
    (Goal("scale", at_least=1.8, of_kafka=False),),
    steady="",
    starts_servers=True,
)

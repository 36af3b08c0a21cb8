"""``python -m benchmarks lag``: the cost of the lag of all groups, by HTTP, in a scrape, and from the command line.

Starts a whole Muster with data in a temporary directory. The groups only commit, as consumers that assign their
partitions themselves, and every partition of every group has a lag.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import psutil
from confluent_kafka import Producer

from benchmarks.cluster import Cluster, cpu_s, machine
from benchmarks.many import warm_up
from benchmarks.report import Figures, output, output_options
from tests.raw_client import Connection, connect

API_VERSIONS, OFFSET_COMMIT, CREATE_TOPICS = (18, 0), (8, 7), (19, 7)
LIMIT_S, LIMITED_GROUPS = 1.0, 1_000
"""Limit of every look with that many groups."""
_TOPIC, _PARTITIONS, _RECORDS = "orders", 10, 20_000
"""Records of each partition, 100 bytes each."""
_CONNECTIONS = 50
_PROBE_S = 0.002
_FORGOTTEN_S = 1.2
"""Pause between looks: a gateway answers requests within a second from its last read."""
_MUSTER = (sys.executable, "-m", "muster.gateway.cli.main")


@dataclass(frozen=True, slots=True)
class Look:
    """The medians of some looks."""

    took_s: float
    cpu_s: float
    """Processor time of gateways, coordinators and log actors."""
    client_cpu_s: float
    """Processor time of a command; 0 for a request."""
    held_s: float
    """Longest wait of another client for a response of the gateway meanwhile, of all looks."""


@click.command()
@click.option("--groups", multiple=True, default=(1_000, 10_000), show_default=True, help="May be repeated.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Of each figure; the median.")
@click.option("--partitions", default=4, show_default=True, help="offsets.topic.num.partitions, an actor each.")
@output_options
def main(groups: tuple[int, ...], rounds: int, partitions: int, json_file: Path | None, as_markdown: bool) -> None:
    """Measure the lag of many groups, all behind in ten partitions. Exit code 1 if a figure is above its limit."""
    about, figures = machine(), Figures()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # end the child processes
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        properties = {"offsets.topic.num.partitions": str(partitions)}
        with Cluster(Path(name), gateways=1, properties=properties) as cluster:
            asyncio.run(_measure(cluster, sorted(groups), rounds, partitions, figures))
    output(figures, about, json_file, as_markdown)
    sys.exit(0 if figures.met else 1)


async def _measure(cluster: Cluster, counts: Sequence[int], rounds: int, partitions: int, figures: Figures) -> None:
    connections = await connect(cluster.bootstrap, _CONNECTIONS)
    await warm_up(connections, partitions)
    await _records(cluster, connections[0])
    actors = {**cluster.actors("gateway"), **cluster.actors("offsets"), **cluster.actors("log")}
    lag = cluster.metrics[0].replace("/metrics", "/v1/groups/lag")
    looks: dict[str, Callable[[], object]] = {
        "GET /v1/groups/lag": partial(_get, lag),
        "GET /metrics": partial(_get, cluster.metrics[0]),
        "muster groups lag": partial(_run, "groups", "lag", "--storage", str(cluster.storage)),
        "muster groups list": partial(_run, "groups", "list", "--storage", str(cluster.storage)),
    }
    there = 0
    for count in (0, *counts):
        await _commit(connections, range(there, count))
        there = count
        for what, look in looks.items():
            click.echo(f"bench: {what}, {count:,} groups", err=True)
            found = await _look(look, rounds, actors, connections[0])
            part, limit = f"{count:,} groups", LIMIT_S if count <= LIMITED_GROUPS else None
            figures.add(part, what, found.took_s, "s", limit)
            figures.add(part, f"{what}, processor time of Muster", found.cpu_s, "s")
            if found.client_cpu_s:
                figures.add(part, f"{what}, processor time of the command", found.client_cpu_s, "s")
            figures.add(part, f"{what}, longest wait of another client", found.held_s * 1e3, "ms")
    for connection in connections:
        connection.close()


async def _records(cluster: Cluster, connection: Connection) -> None:
    topic = {"name": _TOPIC, "num_partitions": _PARTITIONS, "replication_factor": 1, "assignments": [], "configs": []}
    body = {"topics": [topic], "timeout_ms": 30_000, "validate_only": False}
    created = (await connection.call(CREATE_TOPICS, body)).topics[0]
    assert not created.error_code, created
    producer = Producer({"bootstrap.servers": cluster.bootstrap[0]})
    for number in range(_RECORDS * _PARTITIONS):
        producer.produce(_TOPIC, bytes(100), partition=number % _PARTITIONS)
        if number % 1_000 == 0:
            await asyncio.to_thread(producer.flush)
    await asyncio.to_thread(producer.flush)


async def _commit(connections: Sequence[Connection], numbers: range) -> None:
    """Let each of these groups commit an offset below the end for each partition; no two have the same one."""

    async def commit(number: int) -> None:
        offsets = [
            {
                "partition_index": partition,
                "committed_offset": (2 * number + partition) % (_RECORDS - 1),
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
            for partition in range(_PARTITIONS)
        ]
        member = {"group_id": f"billing-{number}", "generation_id_or_member_epoch": -1, "member_id": ""}
        body = {**member, "group_instance_id": None, "topics": [{"name": _TOPIC, "partitions": offsets}]}
        response = await connections[number % len(connections)].call(OFFSET_COMMIT, body)
        errors = {each.error_code for topic in response.topics for each in topic.partitions if each.error_code}
        assert not errors, errors

    await asyncio.gather(*map(commit, numbers))


async def _look(
    look: Callable[[], object], rounds: int, actors: dict[str, psutil.Process], connection: Connection
) -> Look:
    """Return the medians of ``rounds`` looks, each after a pause without looks."""
    took_s, used_s, client_s, held_s = [], [], [], 0.0
    for _ in range(rounds):
        await asyncio.sleep(_FORGOTTEN_S)
        before_s, children_s, began_s = cpu_s(actors), _children_s(), time.perf_counter()
        looking = asyncio.create_task(asyncio.to_thread(look))
        while not looking.done():
            sent_s = time.perf_counter()
            await connection.call(API_VERSIONS, {})
            held_s = max(held_s, time.perf_counter() - sent_s)
            await asyncio.wait([looking], timeout=_PROBE_S)
        await looking
        took_s.append(time.perf_counter() - began_s)
        used_s.append(cpu_s(actors) - before_s)
        client_s.append(_children_s() - children_s)
    return Look(statistics.median(took_s), statistics.median(used_s), statistics.median(client_s), held_s)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=120) as response:
        content: bytes = response.read()
    return content


def _run(*arguments: str) -> None:
    subprocess.run([*_MUSTER, *arguments], capture_output=True, check=True, env={**os.environ, "COLUMNS": "80"})


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

"""Many groups of one member each."""

from __future__ import annotations

import asyncio
import os
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from benchmarks.cluster import Cluster, cpu_s, pss_bytes
from benchmarks.members import HEARTBEAT_INTERVAL_S, Heartbeats, Member
from benchmarks.report import Figures, percentile
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.hashing import partition_for
from tests.raw_client import Connection, Errors, connect, request

FIND_COORDINATOR, DESCRIBE_GROUPS, LIST_GROUPS = (10, 4), (15, 5), (16, 4)
DESCRIBE_LIMIT_S = 1.0
CONNECTIONS = 400
FORMING_S = 180
"""Time limit, after which a measurement fails."""
_DESCRIBED_TOGETHER = 1000
_PROBES = 5
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Scale:
    groups: int
    members: int
    partitions: int
    beat_s: float
    """How long heartbeats are observed."""


Processes = dict[str, psutil.Process]


async def many_groups(cluster: Cluster, scale: Scale, figures: Figures) -> None:
    """Let all groups join at once, stay stable, and be listed and described. Raises RuntimeError if one does not."""
    part = f"{scale.groups:,} groups of 1 member"
    connections = await connect(cluster.bootstrap, CONNECTIONS)
    began_s = time.perf_counter()
    await warm_up(connections, scale.partitions)
    figures.add(part, f"{scale.partitions} offsets actors started", time.perf_counter() - began_s, "s")
    offsets, gateways = cluster.actors("offsets"), cluster.actors("gateway")
    before_bytes, gateways_before_bytes = pss_bytes(offsets), pss_bytes(gateways)
    lines_before = sum(map(cluster.log_lines, offsets))

    errors = Errors()
    members = [
        Member(connections[number % len(connections)], f"many-{number}", "orders", errors)
        for number in range(scale.groups)
    ]
    began_s, used_s = time.perf_counter(), cpu_s(offsets) + cpu_s(gateways)
    async with asyncio.timeout(FORMING_S):
        await asyncio.gather(*(member.alone() for member in members))
    figures.add(part, "all Stable after, initial rebalance delay of 3 s included", time.perf_counter() - began_s, "s")
    used_s = cpu_s(offsets) + cpu_s(gateways) - used_s
    figures.add(part, "processor time of actors and gateways per new group", used_s / scale.groups * 1e3, "ms")

    heartbeats = Heartbeats(members, errors)
    await asyncio.sleep(HEARTBEAT_INTERVAL_S)  # the first of each member is not measured
    heartbeats.latencies_s = array("d")
    watched = {"offsets": offsets, "gateways": gateways, "others": cluster.others(offsets, gateways)}
    busy = await _watch(watched, scale.beat_s)
    rate = len(heartbeats.latencies_s) / scale.beat_s
    figures.add(part, "heartbeats", rate, "per s")
    figures.add(part, "heartbeat, median", percentile(heartbeats.latencies_s, 50) * 1e3, "ms")
    figures.add(part, "heartbeat, 99th percentile", percentile(heartbeats.latencies_s, 99) * 1e3, "ms")
    figures.add(part, "busy: offsets actors", busy["offsets"] * 100, "% of a core")
    figures.add(part, "busy: gateways", busy["gateways"] * 100, "% of a core")
    figures.add(part, "busy: ZooKeeper, reconciler, Ray and all else", busy["others"] * 100, "% of a core")
    figures.add(part, "busy: this client", busy["client"] * 100, "% of a core")

    groups = [member.group for member in members]
    admins = await connect(cluster.bootstrap, len(cluster.bootstrap))
    await _describe(admins[0], groups, part, figures)
    await _list(admins, scale.groups, part, figures)
    figures.add(part, "memory per group, offsets actors (PSS)", _per(offsets, before_bytes, scale.groups), "KiB")
    gateways_bytes = _per(gateways, gateways_before_bytes, scale.groups)
    figures.add(part, "memory per group, gateways (PSS)", gateways_bytes, "KiB")
    lines = sum(map(cluster.log_lines, offsets)) - lines_before
    figures.add(part, "lines in the actors' logs per new group", lines / scale.groups, "")

    await _restart(offsets, admins[0], groups, scale, part, figures)
    await heartbeats.stop()
    figures.add(part, "errors, members lost", sum(errors.values()), "", 0)
    offsets = await asyncio.to_thread(cluster.actors, "offsets")
    await _few(members, offsets, gateways, rate, scale, figures)
    if errors:
        raise RuntimeError(f"errors: {dict(errors)}")
    for connection in (*connections, *admins):
        connection.close()


async def warm_up(connections: Sequence[Connection], partitions: int) -> None:
    """Have the actor of every partition started, by FindCoordinator for one group of each."""
    names: dict[int, str] = {}
    number = 0
    while len(names) < partitions:
        names.setdefault(partition_for(f"warm-{number}", partitions), f"warm-{number}")
        number += 1

    async def find(connection: Connection, group: str) -> None:
        while True:
            response = await connection.call(FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": [group]})
            described = await connection.call_raw(describe_request([group]))
            (group_found,) = codec.decode_response(*DESCRIBE_GROUPS, described)[1].groups
            if response.coordinators[0].error_code is ErrorCode.none and group_found.error_code is ErrorCode.none:
                return
            await asyncio.sleep(0.2)

    await asyncio.gather(*(find(connections[n % len(connections)], group) for n, group in enumerate(names.values())))


def describe_request(groups: Sequence[str]) -> bytes:
    return request(DESCRIBE_GROUPS, {"groups": groups, "include_authorized_operations": False})


async def _watch(kinds: dict[str, Processes], duration_s: float) -> dict[str, float]:
    """Return the share of a core that each kind of process uses in that time; ``client`` is this process."""
    watched = {**kinds, "client": {"": psutil.Process(os.getpid())}}
    before = {name: cpu_s(processes) for name, processes in watched.items()}
    await asyncio.sleep(duration_s)
    return {name: (cpu_s(processes) - before[name]) / duration_s for name, processes in watched.items()}


async def _describe(connection: Connection, groups: list[str], part: str, figures: Figures) -> None:
    for count in sorted({1, min(_DESCRIBED_TOGETHER, len(groups)), len(groups)}):
        described = groups[-count:]
        what = f"DescribeGroups of {count:,}" + (" in one request" if count > 1 else "")
        frame = describe_request(described)
        with _median(part, what, figures) as took_s:
            for _ in range(_PROBES):
                began_s = time.perf_counter()
                response = await connection.call_raw(frame)
                took_s.append(time.perf_counter() - began_s)
        found = codec.decode_response(*DESCRIBE_GROUPS, response)[1].groups
        stable = [group.group_id for group in found if group.group_state == "Stable" and len(group.members) == 1]
        if stable != described:
            states = Counter((group.error_code.name, group.group_state, len(group.members)) for group in found)
            raise RuntimeError(f"{count} groups are not all Stable with one member: {dict(states)}")


async def _list(admins: Sequence[Connection], expected: int, part: str, figures: Figures) -> None:
    """Send ListGroups to every gateway at once, as admin clients do."""
    frame = request(LIST_GROUPS, {"states_filter": ["Stable"]})
    with _median(part, "ListGroups, all gateways", figures) as took_s:
        for _ in range(_PROBES):
            began_s = time.perf_counter()
            responses = await asyncio.gather(*(connection.call_raw(frame) for connection in admins))
            took_s.append(time.perf_counter() - began_s)
    listed = sum(len(codec.decode_response(*LIST_GROUPS, response)[1].groups) for response in responses)
    if listed != expected:
        raise RuntimeError(f"{listed} Stable groups are listed, {expected} are there")


async def _restart(
    offsets: Processes, connection: Connection, groups: list[str], scale: Scale, part: str, figures: Figures
) -> None:
    """Kill the actor of one partition while all members heartbeat; its members must not notice."""
    partition = partition_for(groups[0], scale.partitions)
    owned = [group for group in groups if partition_for(group, scale.partitions) == partition]
    frame = describe_request(owned[:1])
    offsets[f"offsets-{partition}"].kill()
    began_s = time.perf_counter()
    was_down = False
    async with asyncio.timeout(FORMING_S):
        while True:
            (found,) = codec.decode_response(*DESCRIBE_GROUPS, await connection.call_raw(frame))[1].groups
            if was_down and found.group_state == "Stable":
                break
            was_down = was_down or found.error_code is not ErrorCode.none
            await asyncio.sleep(_POLL_S)
    took_s = time.perf_counter() - began_s
    figures.add(part, f"an offsets actor is killed: its {len(owned):,} groups are served again after", took_s, "s")


async def _few(
    members: Sequence[Member],
    offsets: Processes,
    gateways: Processes,
    rate: float,
    scale: Scale,
    figures: Figures,
) -> None:
    """Send as many heartbeats per second over as many connections, of a few groups only: the cost of many groups."""
    errors = Errors()

    async def cost(some: Sequence[Member]) -> float:
        heartbeats = Heartbeats(some, errors, interval_s=len(some) / rate)
        busy = await _watch({"offsets": offsets, "gateways": gateways}, scale.beat_s / 2)
        await heartbeats.stop()
        return (busy["offsets"] + busy["gateways"]) / (len(heartbeats.latencies_s) / (scale.beat_s / 2))

    few, many = await cost(members[:CONNECTIONS]), await cost(members)
    part = "cost of a heartbeat"
    figures.add(part, f"processor time per heartbeat, {min(CONNECTIONS, len(members))} groups beat", few * 1e6, "us")
    figures.add(part, f"processor time per heartbeat, {len(members):,} groups beat", many * 1e6, "us")
    figures.add(part, "ratio", many / few, "")
    if errors:
        raise RuntimeError(f"errors: {dict(errors)}")


@contextmanager
def _median(part: str, what: str, figures: Figures) -> Iterator[list[float]]:
    took_s: list[float] = []
    yield took_s
    figures.add(part, what, sorted(took_s)[len(took_s) // 2], "s", DESCRIBE_LIMIT_S)


def _per(processes: Processes, before_bytes: int, count: int) -> float:
    return (pss_bytes(processes) - before_bytes) / count / 1024

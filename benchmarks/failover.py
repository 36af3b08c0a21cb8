"""``python -m benchmarks.failover``: the outage after SIGKILL of each actor of a whole Muster.

The clock runs from the kill to the first response of a living actor: a refused heartbeat of a wrong generation (a
gateway answers heartbeats itself while the actor is down), an acknowledged OffsetCommit or Produce, a Fetch of every
partition, a created topic.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click

from benchmarks.client import Connection, Errors, Lost, connect
from benchmarks.cluster import Cluster, machine
from benchmarks.many import warm_up
from benchmarks.members import HEARTBEAT, Member
from benchmarks.report import Figures, output, output_options
from muster.actors.log.format.records import build_batch
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli.ray import connection
from muster.gateway.cli.storage import directory as storage

KINDS = ("offsets", "log", "gateway", "controller")
LIMIT_S = 1.0
"""Limit for the coordinator of a group: from the kill to its first heartbeat and to its first commit."""
PRODUCE, FETCH, OFFSET_COMMIT, OFFSET_FETCH, CREATE_TOPICS = (0, 9), (1, 12), (8, 8), (9, 7), (19, 7)
_PARTITIONS = 4
_NO_SESSION, _NO_EPOCH = -1, -1
_TOPIC, _GROUP = "orders", "bench"
_PROBE_S = 0.005
_GIVE_UP_S = 60.0
_BUCKETS_S = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, math.inf)

_ENDS_MEMBERSHIP = (ErrorCode.unknown_member_id, ErrorCode.illegal_generation, ErrorCode.rebalance_in_progress)

Probe = Callable[[], Awaitable[bool]]
"""Sends one request; returns whether the response came from a living actor."""


@dataclass(slots=True)
class Outage:
    """Results of one kind of kill: seconds from each kill to the first good response, by kind of request."""

    took_s: dict[str, list[float]] = field(default_factory=dict)
    back_s: list[float] = field(default_factory=list)
    """Until a new process of the killed actor served."""


class Client:
    """One member of one group, a producer and an administrator, through one gateway."""

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self.bootstrap = bootstrap
        self.errors = Errors()
        self.member: Member
        self.connection: Connection
        self.reading: Connection
        """Fetches have a connection of their own, as in clients: a connection's responses are sent in order."""
        self._committed = 0
        self._created = 0

    async def begin(self) -> None:
        self.connection, self.reading = await connect(self.bootstrap[-1:], 2)
        await _until(partial(self.create_topic, _TOPIC))
        await warm_up([self.connection], 1)
        self.member = Member(self.connection, _GROUP, _TOPIC, self.errors)
        await self.member.alone()

    async def heartbeat_for_ever(self) -> None:
        """Heartbeat like a consumer; no response may ever end the membership."""
        while True:
            response = await self.connection.call(HEARTBEAT, self._identity(self.member.generation))
            if response.error_code in _ENDS_MEMBERSHIP:
                self.errors.note("Heartbeat", response.error_code)
            await asyncio.sleep(1)

    async def heartbeat_refused(self) -> bool:
        body = self._identity(self.member.generation + 1)
        response = await self.connection.call(HEARTBEAT, body)
        return bool(response.error_code is ErrorCode.illegal_generation)

    async def commit(self) -> bool:
        self._committed += 1
        partition = {"partition_index": 0, "committed_offset": self._committed, "committed_leader_epoch": -1}
        topics = [{"name": _TOPIC, "partitions": [{**partition, "committed_metadata": ""}]}]
        member = {**self._identity(-1), "generation_id_or_member_epoch": self.member.generation}
        response = await self.connection.call(OFFSET_COMMIT, {**member, "topics": topics})
        return bool(response.topics[0].partitions[0].error_code is ErrorCode.none)

    async def produce(self) -> bool:
        """Produce to every partition, and so to every log actor."""
        return await self._produce(range(_PARTITIONS))

    async def _produce(self, partitions: Sequence[int]) -> bool:
        records = build_batch([(None, b"x")], round(time.time() * 1000), 0, -1)
        data = [{"index": partition, "records": bytes(records)} for partition in partitions]
        body = {"transactional_id": None, "acks": -1, "timeout": 1000}
        response = await self.connection.call(
            PRODUCE, {**body, "topic_data": [{"name": _TOPIC, "partition_data": data}]}
        )
        return all(each.error_code is ErrorCode.none for each in response.responses[0].partition_responses)

    async def fetch(self) -> bool:
        """Fetch the first record of every partition."""
        fetched = {"fetch_offset": 0, "current_leader_epoch": _NO_EPOCH, "last_fetched_epoch": _NO_EPOCH}
        limits = {"log_start_offset": -1, "partition_max_bytes": 1}
        partitions = [{"partition": partition, **fetched, **limits} for partition in range(_PARTITIONS)]
        body = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0}
        session = {"session_id": 0, "session_epoch": _NO_SESSION, "forgotten_topics_data": [], "rack_id": ""}
        topics = [{"topic": _TOPIC, "partitions": partitions}]
        response = await self.reading.call(FETCH, {**body, **session, "topics": topics})
        return all(each.error_code is ErrorCode.none for each in response.responses[0].partitions)

    async def create_another(self) -> bool:
        self._created += 1
        return await self.create_topic(f"{_TOPIC}-{self._created}", partitions=1)

    async def create_topic(self, name: str, partitions: int = _PARTITIONS) -> bool:
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
        body = {"topics": [topic], "timeout": 1000, "validate_only": False}
        response = await self.connection.call(CREATE_TOPICS, body)
        return response.topics[0].error_code in (ErrorCode.none, ErrorCode.topic_already_exists)

    async def at_first_gateway(self) -> bool:
        try:
            (connection,) = await connect(self.bootstrap[:1], 1)
        except OSError:
            return False
        try:
            response = await connection.call(HEARTBEAT, self._identity(self.member.generation + 1))
        except Lost:
            return False
        finally:
            connection.close()
        return bool(response.error_code is ErrorCode.illegal_generation)

    async def check(self) -> None:
        """Check that the member is still one, in the same generation, and that its last acknowledged commit is
        there."""
        response = await self.connection.call(HEARTBEAT, self._identity(self.member.generation))
        self.errors.note("Heartbeat", response.error_code)
        topics = [{"name": _TOPIC, "partition_indexes": [0]}]
        fetched = await self.connection.call(
            OFFSET_FETCH, {"group_id": _GROUP, "topics": topics, "require_stable": False}
        )
        if self._committed and fetched.topics and fetched.topics[0].partitions[0].committed_offset < self._committed:
            self.errors["a commit is lost"] += 1

    def _identity(self, generation: int) -> dict[str, Any]:
        return {
            "group_id": _GROUP,
            "generation_id": generation,
            "member_id": self.member.id,
            "group_instance_id": None,
        }


async def measure(kinds: Sequence[str], kills: int, client: Client) -> dict[str, Outage]:
    await client.begin()
    beating = asyncio.create_task(client.heartbeat_for_ever())
    probes: dict[str, dict[str, Probe]] = {
        "offsets": {"heartbeat": client.heartbeat_refused, "commit": client.commit},
        "log": {"produce": client.produce, "fetch": client.fetch},
        "gateway": {"heartbeat through it": client.at_first_gateway},
        "controller": {"topic created": client.create_another},
    }
    outages = {kind: Outage() for kind in kinds}
    for kind in kinds:
        for number in range(kills):
            await kill(_victim(kind, number), probes[kind], outages[kind])
            await client.check()
        click.echo(f"bench: {kills} kills, {kind}", err=True)
    beating.cancel()
    return outages


def _victim(kind: str, number: int) -> str:
    return {"offsets": "offsets-0", "gateway": "gateway-1", "log": f"log-{number % 2}"}.get(kind, kind)


async def kill(name: str, probes: dict[str, Probe], outage: Outage) -> None:
    """Kill a serving actor, probe until every probe has succeeded, and wait until the actor serves in a new process."""
    pid = await settled(name, None)
    for probe in probes.values():  # opens all connections
        await _until(probe)
    began_s = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    took_s = await asyncio.gather(*(_until(probe, began_s) for probe in probes.values()))
    for what, seconds in zip(probes, took_s, strict=True):
        outage.took_s.setdefault(what, []).append(seconds)
    await settled(name, pid)
    outage.back_s.append(time.perf_counter() - began_s)


async def _until(probe: Probe, began_s: float = 0.0) -> float:
    async with asyncio.timeout(_GIVE_UP_S):
        while not await probe():  # noqa: ASYNC110 - only an answer tells
            await asyncio.sleep(_PROBE_S)
    return time.perf_counter() - began_s


async def settled(name: str, before: int | None) -> int:
    """Wait until everything is healthy and the actor's process is not ``before``; return its pid."""
    async with asyncio.timeout(_GIVE_UP_S):
        while True:
            actors = {actor["name"]: actor for actor in await _actors()}
            standbys = [actor["state"] for key, actor in actors.items() if key.startswith("standby-")]
            actor = actors.get(name)
            itself = actor and actor["state"] == "alive" and not actor.get("stand_in") and actor["pid"] != before
            if actor and itself and set(standbys) <= {"alive"}:
                return int(actor["pid"])
            await asyncio.sleep(0.1)


async def _actors() -> list[dict[str, Any]]:
    from muster.gateway.cluster import ClusterError, cluster_status  # imports Ray, which then requires its token

    try:
        status = await asyncio.to_thread(cluster_status)
    except ClusterError:
        return []
    return list(status["actors"])


def disconnect() -> None:
    """Disconnect from Ray, which otherwise ends this process when it ends."""
    import ray

    ray.shutdown()


def add_figures(outages: dict[str, Outage], figures: Figures) -> None:
    for kind, outage in outages.items():
        limit = LIMIT_S if kind == "offsets" else None
        part = f"{len(outage.back_s)} times SIGKILL: {kind}"
        for what, took_s in outage.took_s.items():
            figures.add(part, f"{what}, median", at_percent(took_s, 50), "s")
            figures.add(part, f"{what}, 99th percentile", at_percent(took_s, 99), "s", limit)
            figures.add(part, f"{what}, worst", max(took_s), "s")
        figures.add(part, "in a process of its own again, median", at_percent(outage.back_s, 50), "s")


def at_percent(values: Sequence[float], percent: int) -> float:
    """Return the nearest rank: the 99th percentile of fifty values is the largest."""
    return sorted(values)[math.ceil(percent / 100 * len(values)) - 1]


def histogram(took_s: Sequence[float]) -> str:
    """Draw one line for each non-empty bucket."""
    lines, below_s = [], 0.0
    for bound_s in _BUCKETS_S:
        count = sum(below_s <= seconds < bound_s for seconds in took_s)
        if count:
            lines.append(f"  {below_s:4.2f} - {bound_s:4.2f} s  {count:3d}  {'#' * count}")
        below_s = bound_s
    return "\n".join(lines)


@click.command()
@click.option("--kills", default=50, show_default=True, help="Of each kind of actor.")
@click.option("--only", multiple=True, type=click.Choice(KINDS), help="This kind alone; may be repeated.")
@click.option("--no-standby", is_flag=True, help="With offsets.standby.enable=false, to compare.")
@click.option("--keep-logs", type=click.Path(file_okay=False, path_type=Path), help="Copy the actors' logs there.")
@output_options
def main(
    kills: int,
    only: tuple[str, ...],
    no_standby: bool,
    keep_logs: Path | None,
    json_file: Path | None,
    as_markdown: bool,
) -> None:
    """Measure failover. Exit code 1 if a figure is above its limit, or a member or a commit was lost."""
    about, figures = machine(), Figures()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # end the child processes
    properties = {
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.standby.enable": str(not no_standby).lower(),
    }
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as name,
        Cluster(Path(name), gateways=2, properties=properties) as cluster,
    ):
        state = storage.read_state(cluster.storage)
        assert state is not None
        connection.connect(state.ray_address, state.ray_token_path)
        client = Client(cluster.bootstrap)
        try:
            outages = asyncio.run(measure(only or KINDS, kills, client))
        except BaseException:
            click.echo("\n".join(cluster.complaints()[-20:]), err=True)
            raise
        finally:
            disconnect()
            if keep_logs is not None:
                shutil.copytree(cluster.storage / "run" / "log", keep_logs, dirs_exist_ok=True)
    add_figures(outages, figures)
    figures.add("all", "errors, members and commits lost", client.errors.total(), "", 0)
    output(figures, about, json_file, as_markdown)
    for kind, outage in outages.items():
        for what, took_s in outage.took_s.items():
            click.echo(f"\n{kind}, {what}\n{histogram(took_s)}")
    sys.exit(0 if figures.met else 1)


if __name__ == "__main__":
    main()

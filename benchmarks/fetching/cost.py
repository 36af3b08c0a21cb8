"""``python -m benchmarks.fetching.cost``: the cost of attribution for a Fetch.

One process has two gateways over the same log actor, which is a process of its own: one gateway attributes what it
sends, the other does not. Consumers, each with its own group and connection, read forward through either in turn, in
many short rounds, so that any other load of the machine affects both. Two neighbouring rounds make one ratio; the
result is the median of the ratios. Its confidence interval depends on the number of ratios only, not on their
distribution. The last two loads are not consumers: several connections of one client id read the same partitions.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import psutil
import uvloop

from benchmarks.cluster import machine
from benchmarks.report import Figures, output, output_options
from muster.actors.config import MusterConfig, log_config
from muster.actors.log.format.records import build_batch
from muster.actors.log.listener import LogServer
from muster.actors.log.open_logs import SharedDirectory
from muster.actors.log.partitions import Partitions
from muster.actors.runtime.process import now_ms
from muster.actors.tables.spool import Sample, SampleStore
from muster.actors.wire.internal.listener import Server
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.data.fetching import fetch
from muster.gateway.attribution.account import Account
from muster.gateway.listener.api import Call
from muster.gateway.listener.server import GatewayServer
from muster.gateway.metrics.gateway import GatewayMetrics
from muster.placement.mapping.registration import Kind, Registration
from muster.placement.view import Broker, ClusterView, Endpoint, Topic
from tests.raw_client import Connection, open_connection, request

LIMIT_PERCENT = 3.0
"""Limit for the median loss of throughput by attribution."""
PRODUCE, FETCH = (0, 9), (1, 12)
_HOST = "127.0.0.1"
_OTHERS = 1_000
"""Registrations of other clients in the gateway, in addition to the readers'."""
_CONSUMERS = tuple(f"bench-{number}" for number in range(4))
"""Client ids: each is the only member of its own group and has one connection, like a consumer."""
_SHARED = ("bench-shared",) * 4
"""One member of one group, and four connections that read the same partitions: at most one is the member's."""
_PRODUCED_AT_ONCE = 20
_KIB = 1024
_END_S = 10


@dataclass(frozen=True, slots=True)
class Load:
    """Responses of ``partitions`` times ``batches`` batches of ``batch_bytes``."""

    name: str
    batch_bytes: int
    batches: int
    partitions: int
    length: int
    """Responses until a partition is read to its end and restarted."""
    client_ids: tuple[str, ...] = _CONSUMERS
    """The client id of each connection."""
    is_limited: bool = True


LOADS = (
    Load("1 MiB in 16 batches", 64 * _KIB, 16, 1, 24),
    Load("10 KiB in one batch", 10 * _KIB, 1, 1, 1_000),
    Load("10 KiB from 10 partitions", _KIB, 1, 10, 1_000, is_limited=False),
    Load("1 MiB, one client id", 64 * _KIB, 16, 1, 24, _SHARED, is_limited=False),
    Load("10 KiB, one client id", 10 * _KIB, 1, 1, 1_000, _SHARED, is_limited=False),
)
_TOPICS = {
    load.name: Topic(name=f"load-{number}", topic_id=UUID(int=number + 1), partitions=load.partitions)
    for number, load in enumerate(LOADS)
}


def _view(log: Endpoint | None, version: int, topics: Mapping[str, Topic] = _TOPICS) -> ClusterView:
    return ClusterView(
        cluster_id="bench",
        controller_epoch=1,
        version=version,
        brokers=(Broker(id=1, host=_HOST, port=9092, node_id="n1"),),
        topics={topic.name: topic for topic in topics.values()},
        logs={0: log},
        offsets={},
    )


def log_process(folder: Path, topics: Mapping[str, Topic], pipe: Pipe) -> None:
    """Run a log actor's inside. Sends its endpoint; ends when the pipe is closed."""

    async def epoch(topic: str, partition: int) -> int:
        return 1

    async def serve() -> None:
        view = _view(None, 1, topics)
        partitions = Partitions(
            storage=SharedDirectory(folder / "logs"),
            config=log_config(MusterConfig.from_properties({})),
            topics=lambda: view,
            index=0,
            next_epoch=epoch,
        )
        server = Server(LogServer(partitions), b"secret")
        pipe.send(await server.start(node_id="n1", host=_HOST, path=folder / "log.sock"))
        await asyncio.to_thread(until_closed, pipe)
        await server.stop()
        await partitions.close()

    uvloop.run(serve())


def gateway_process(folder: Path, log: Endpoint, pipe: Pipe) -> None:
    """Run the two gateways. Sends the ports, without attribution first; ends when the pipe is closed."""

    async def serve() -> None:
        plain, attributing = (new_gateway(folder / name, log, _TOPICS) for name in ("plain", "attributing"))
        _attribute_only_for(attributing)
        attributing.account.updates(_registrations(), now_ms())
        ports = [await each.listen(_HOST, 0) for each in (plain, attributing)]
        for each in (plain, attributing):
            await reaches_log(each)
        pipe.send(ports)
        await asyncio.to_thread(until_closed, pipe)
        assert plain.account.totals() == {}
        await plain.stop()
        await attributing.stop()

    uvloop.run(serve())


async def reaches_log(gateway: GatewayServer) -> None:
    if not await gateway.forwarder.until(lambda: gateway.forwarder.log(0) is not None, _END_S):
        raise RuntimeError("the gateway does not reach the log actor")


def _attribute_only_for(gateway: GatewayServer) -> None:
    """Let all other gateways of this process inspect no Fetch and no batch, and count nothing."""
    for name in ("_sent", "_fetching"):
        function = getattr(fetch, name)

        def only_there(call: Call, wanted: Any, function: Callable[..., None] = function) -> None:
            if call.gateway is gateway:
                function(call, wanted)

        setattr(fetch, name, only_there)


def new_gateway(folder: Path, log: Endpoint, topics: Mapping[str, Topic]) -> GatewayServer:
    """Return a gateway that does not listen yet."""
    store = SampleStore(folder, 1, flush_ms=60_000, now_ms=now_ms)
    account = Account(store, Sample)
    return GatewayServer(
        gateway_id=1,
        node_id="n1",
        config=MusterConfig.from_properties({}),
        controller=_NoController(),
        account=account,
        metrics=GatewayMetrics(1, account),
        view=_view(log, 2, topics),
    )


class _NoController:
    """The controller is needed for producer ids only, and no client requests any."""

    async def producer_ids(self) -> range:
        return range(1)

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(name)


def _registrations() -> list[Registration]:
    places = frozenset((topic.name, number) for topic in _TOPICS.values() for number in range(topic.partitions))

    def of(number: int, group: str, host: str, client_id: str) -> Registration:
        return Registration(
            group=group,
            member_id=f"{group}-member",
            kind=Kind.MEMBER,
            client_id=client_id,
            host=host,
            generation=1,
            partitions=places,
            offsets_partition=0,
            epoch=1,
            sequence=number,
        )

    hosts = (f"10.0.{number // 250}.{number % 250}" for number in range(_OTHERS))
    others = [of(number, f"group-{number}", host, _CONSUMERS[0]) for number, host in enumerate(hosts)]
    names = sorted({*_CONSUMERS, *_SHARED})
    readers = [of(_OTHERS + number, f"of-{name}", _HOST, name) for number, name in enumerate(names)]
    return [*others, *readers]


def until_closed(pipe: Pipe) -> None:
    try:
        pipe.recv()
    except EOFError:
        return


@dataclass(frozen=True, slots=True)
class Round:
    """The work of one gateway in a round."""

    fetches: int
    took_s: float
    cpu_s: float
    """Processor time of the gateways' process."""

    @property
    def per_s(self) -> float:
        return self.fetches / self.took_s

    @property
    def cpu_us(self) -> float:
        """Processor time per fetch."""
        return self.cpu_s / self.fetches * 1e6


class Reader:
    """Connections to one gateway that each have one Fetch under way, and read the load's partitions forward.

    Each reads by itself, from its own position, as consumers do: a Fetch continues where its last response ended.
    """

    def __init__(self, connections: Sequence[Connection], load: Load) -> None:
        self._connections = connections
        self._size_bytes = load.batch_bytes * load.batches * load.partitions
        self._requests = []
        for number, client_id in enumerate(load.client_ids):
            frames = [_fetch(load, place * load.batches, client_id) for place in range(load.length)]
            start = number * load.length // len(load.client_ids)
            self._requests.append(itertools.cycle(frames[start:] + frames[:start]))

    async def read(self, duration_s: float, gateway: psutil.Process) -> Round:
        until_s, fetches = time.perf_counter() + duration_s, 0

        async def read(connection: Connection, requests: Iterator[bytes]) -> None:
            nonlocal fetches
            while True:
                response = await connection.call_raw(next(requests))
                if len(response) < self._size_bytes:
                    raise RuntimeError(f"an answer of {len(response):,} bytes instead of {self._size_bytes:,}")
                fetches += 1
                if time.perf_counter() >= until_s:
                    break

        began_s, used_s = time.perf_counter(), cpu_s(gateway)
        async with asyncio.timeout(duration_s + _END_S):
            await asyncio.gather(*map(read, self._connections, self._requests))
        return Round(fetches, time.perf_counter() - began_s, cpu_s(gateway) - used_s)


async def measure(ports: Sequence[int], gateway: psutil.Process, pairs: int, round_s: float, figures: Figures) -> None:
    """Measure one load. ``ports``: of the gateway without attribution, and of the one with it."""
    for load in LOADS:
        plain, attributing = [await _connect(port, load) for port in ports]
        await _fill(plain[0], load)
        readers = [Reader(connections, load) for connections in (plain, attributing)]
        for reader in readers:
            await reader.read(round_s, gateway)
        found: list[tuple[Round, Round]] = []
        for number in range(pairs):
            order = readers if number % 2 else readers[::-1]
            rounds = {id(reader): await reader.read(round_s, gateway) for reader in order}
            found.append((rounds[id(readers[0])], rounds[id(readers[1])]))
        add_figures(load, found, figures)
        click.echo(f"bench: {load.name}", err=True)


def add_figures(load: Load, pairs: Sequence[tuple[Round, Round]], figures: Figures) -> None:
    """Add a load's figures. ``pairs``: a round without attribution and the neighbouring one with it."""
    without, with_it = ([pair[number] for pair in pairs] for number in range(2))
    lost = [(1 - b.per_s / a.per_s) * 100 for a, b in pairs]
    low, high = median_interval(lost)
    limit = LIMIT_PERCENT if load.is_limited else None
    figures.add(load.name, "fetches without attribution, median", statistics.median(r.per_s for r in without), "per s")
    figures.add(load.name, "fetches with attribution, median", statistics.median(r.per_s for r in with_it), "per s")
    figures.add(load.name, f"lost to attribution, median of {len(lost)} pairs", statistics.median(lost), "%", limit)
    figures.add(load.name, "the same, 95% confidence: at least", low, "%")
    figures.add(load.name, "the same, 95% confidence: at most", high, "%")
    cpu_us = [statistics.median(each.cpu_us for each in rounds) for rounds in (without, with_it)]
    added = statistics.median((b.cpu_us / a.cpu_us - 1) * 100 for a, b in pairs)
    figures.add(load.name, "processor time of the gateway per fetch, without", cpu_us[0], "us")
    figures.add(load.name, "processor time of the gateway per fetch, with", cpu_us[1], "us")
    figures.add(load.name, "processor time that attribution adds, median of the pairs", added, "%")


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% confidence interval of the median of the sampled distribution: by the values' order alone."""
    ordered = sorted(values)
    beyond = max(0, math.floor(len(ordered) / 2 - 0.98 * math.sqrt(len(ordered))) - 1)
    return ordered[beyond], ordered[-1 - beyond]


def _pin(process: SpawnProcess, core: int) -> None:
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})


async def _connect(port: int, load: Load) -> list[Connection]:
    return [await open_connection(_HOST, port, client_id=name, local_host=_HOST) for name in load.client_ids]


async def _fill(connection: Connection, load: Load) -> None:
    """Append as many batches as are read before a restart, or a few more."""
    batch = bytes(build_batch([(None, bytes(load.batch_bytes))], now_ms(), 0, -1))
    data = [{"index": partition, "records": batch} for partition in range(load.partitions)]
    body = {"transactional_id": None, "acks": -1, "timeout": 10_000}
    frame = request(PRODUCE, {**body, "topic_data": [{"name": _TOPICS[load.name].name, "partition_data": data}]})
    for _ in range(0, load.length * load.batches, _PRODUCED_AT_ONCE):
        responses = await asyncio.gather(*(connection.call_raw(frame) for _ in range(_PRODUCED_AT_ONCE)))
        for response in responses:
            found = codec.decode_response(*PRODUCE, response)[1].responses[0].partition_responses
            if any(each.error_code is not ErrorCode.none for each in found):
                raise RuntimeError(f"Produce is answered {found}")


def _fetch(load: Load, offset: int, client_id: str) -> bytes:
    item = {"fetch_offset": offset, "partition_max_bytes": load.batch_bytes * load.batches + 200 * load.batches}
    partitions = [{"partition": partition, **item} for partition in range(load.partitions)]
    body = {"max_wait": 500, "min_bytes": 1, "max_bytes": 64 << 20, "forgotten_topics_data": []}
    return request(FETCH, {**body, "topics": [{"topic": _TOPICS[load.name].name, "partitions": partitions}]}, client_id)


def cpu_s(process: psutil.Process) -> float:
    """Return the time of all threads, by the scheduler's count in nanoseconds: psutil's are ticks of 10 ms."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def start(target: Callable[..., None], *arguments: Any) -> tuple[Any, SpawnProcess, Pipe]:
    """Run the target in its own process; return its first message, the process, and the pipe that ends it on close."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    return ours.recv(), process, ours


@click.command()
@click.option("--pairs", default=200, show_default=True, help="Rounds with and without attribution, for each load.")
@click.option("--round", "round_s", default=0.1, show_default=True, help="Length of a round, in seconds.")
@click.option("--pin", is_flag=True, help="The gateways on one core, the client and the log actor on another.")
@output_options
def main(pairs: int, round_s: float, pin: bool, json_file: Path | None, as_markdown: bool) -> None:
    """Measure fetches with and without attribution. Exit code 1 if it costs more than its limit."""
    about, figures = machine(), Figures()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        folder = Path(name)
        log, log_server, log_pipe = start(log_process, folder, _TOPICS)
        ports, gateways, pipe = start(gateway_process, folder, log)
        if pin:
            beside, alone, *_ = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {beside})
            _pin(log_server, beside)
            _pin(gateways, alone)
        try:
            asyncio.run(measure(ports, psutil.Process(gateways.pid), pairs, round_s, figures))
        finally:
            for process, its_pipe in ((gateways, pipe), (log_server, log_pipe)):
                its_pipe.close()
                process.join(_END_S)
    output(figures, about, json_file, as_markdown)
    sys.exit(0 if figures.met else 1)


if __name__ == "__main__":
    main()

"""The account balances in every scrape, and has exactly what was handed to sockets.

What was handed to sockets is recorded independently of the gateway's own counting, where the connection writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from prometheus_client.parser import text_string_to_metric_families

from muster.actors.log.format.batch import iter_headers
from muster.actors.runtime.process import now_ms
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.framing import Buffer, Framer
from muster.actors.wire.kafka.steps import finish
from muster.gateway.listener.connection import Connection
from muster.gateway.listener.upkeep import Upkeep
from muster.placement.view import Topic
from pytest_muster import FaultClient
from tests.gateway.apis.test_data_apis import FETCH, fetch, fetch_body, produce
from tests.gateway.fault_client import PROPERTIES as FAULT_PROPERTIES
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.metrics.test_group_metrics import assignment
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Client, Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

PROPERTIES = {**FAULT_PROPERTIES, "attribution.pending.ms": "200", "metrics.group.series.retention.ms": "1000"}
VERSION = 12
"""The version of every Fetch here, so that responses can be read without their requests."""
NO_REQUEST = b"\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff"
"""An unknown API: the connection is closed after the earlier requests got their responses."""
PARTITIONS = 3
ROUNDS = 40
Books = dict[str, Counter[tuple[str, str]]]
"""Metric -> (topic, partition) -> amount."""


class Tee:
    """A transport, and what was written to it."""

    def __init__(self, transport: asyncio.Transport, written: bytearray) -> None:
        self._transport = transport
        self._written = written

    def write(self, data: Buffer) -> None:
        self._written += data
        self._transport.write(data)

    def writelines(self, data: Iterable[Buffer]) -> None:
        pieces = list(data)
        for piece in pieces:
            self._written += piece
        self._transport.writelines(pieces)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@pytest.fixture
def written(full: Serving, monkeypatch: pytest.MonkeyPatch) -> dict[int, bytearray]:
    """Return the bytes handed to the socket of each client, by the client's port, for connections from now on."""
    streams: dict[int, bytearray] = {}
    by_descriptor: dict[int, bytearray] = {}
    connection_made, writev = Connection.connection_made, os.writev

    def made(self: Connection, transport: Any) -> None:
        peer = transport.get_extra_info("peername")  # None: it is already closed
        written = streams.setdefault(peer[1], bytearray()) if peer else bytearray()
        by_descriptor[transport.get_extra_info("socket").fileno()] = written
        connection_made(self, Tee(transport, written))  # type: ignore[arg-type]

    def written_past_the_transport(descriptor: int, pieces: Sequence[Buffer]) -> int:
        size_bytes = writev(descriptor, pieces)
        if descriptor in by_descriptor:
            by_descriptor[descriptor] += b"".join(pieces)[:size_bytes]
        return size_bytes

    monkeypatch.setattr(Connection, "connection_made", made)
    monkeypatch.setattr(os, "writev", written_past_the_transport)
    return streams


@pytest.fixture
def faults(full: Serving) -> Iterator[FaultClient]:
    client = FaultClient(full.http_url)
    yield client
    client.clear()


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    topic = full.create(fresh("t"), PARTITIONS)
    for partition in range(PARTITIONS):
        for size in range(1, 12):
            produce(full.client, (topic, partition, client_batch(size, value=b"x" * 97 * size)))
    return topic


def books(text: str) -> Books:
    """Bytes and messages of fetches, whatever their other labels; of principals, with an empty partition."""
    found: Books = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if "_fetch_" in sample.name and "topic" in sample.labels and not sample.name.endswith("_created"):
                place = (sample.labels["topic"], sample.labels.get("partition", ""))
                found.setdefault(sample.name, Counter())[place] += int(sample.value)
    return found


def balanced(text: str) -> Books:
    """Return the account in a scrape. Raises AssertionError if it does not balance."""
    found = books(text)
    for unit in ("bytes", "messages"):
        parts: Counter[tuple[str, str]] = Counter()
        for name in (f"group_fetch_{unit}_total", f"unattributed_fetch_{unit}_total"):
            parts.update(found.get(f"muster_{name}", {}))
        for name in (f"pending_fetch_{unit}", f"removed_group_fetch_{unit}"):
            parts.update(found.get(f"muster_{name}", {}))
        sent = +found.get(f"muster_fetch_{unit}_total", Counter())
        assert +parts == sent
        by_topic: Counter[tuple[str, str]] = Counter()
        for (topic, _), amount in sent.items():
            by_topic[topic, ""] += amount
        assert +found.get(f"muster_principal_fetch_{unit}_total", Counter()) == by_topic
    return found


def scraped(full: Serving) -> Books:
    return balanced(full.http("/metrics")[1])


@contextmanager
def scraping(full: Serving, seed: int) -> Iterator[list[Books]]:
    """Scrapes and the once-a-second work at random moments, until the block ends; each scrape balances."""
    stopping = threading.Event()
    scrapes: list[Books] = []
    failures: list[BaseException] = []
    upkeep, pause = Upkeep(full.gateway.account), random.Random(seed)

    async def settle() -> None:
        finish(upkeep.settle(now_ms()))

    def run() -> None:
        try:
            while not stopping.wait(pause.random() * 0.03):
                full.run(settle())
                scrapes.append(scraped(full))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield scrapes
    finally:
        stopping.set()
        thread.join(60)
    assert not failures, failures[0]


def of_fetches(frames: Iterable[bytes], topic: str) -> Books:
    """Return the content of that topic in the Fetch responses, as written."""
    found: Books = {"bytes": Counter(), "messages": Counter()}
    for frame in frames:
        _, response = codec.decode_response(FETCH, VERSION, frame)
        for item in response.responses:
            for partition in item.partitions if item.topic == topic else ():
                place = (topic, str(partition.partition_index))
                found["bytes"][place] += len(partition.records or b"")
                headers = iter_headers(partition.records or b"")
                found["messages"][place] += sum(header.record_count for _, header in headers)
    return found


def counted(scrape: Books, topic: str) -> Books:
    return {
        unit: Counter(
            {place: n for place, n in scrape.get(f"muster_fetch_{unit}_total", Counter()).items() if place[0] == topic}
        )
        for unit in ("bytes", "messages")
    }


def all_of(topic: Topic, offset: int = 0) -> list[tuple[Topic, int, int]]:
    return [(topic, partition, offset) for partition in range(PARTITIONS)]


def read_to_the_end(client: Client) -> None:
    """Read until the gateway closes the connection, with RST if it has not read every request."""
    with contextlib.suppress(ConnectionResetError):
        while client._socket.recv(1 << 16):
            pass


def check_totals(full: Serving, topic: Topic, written: dict[int, bytearray], ports: list[int]) -> None:
    """After those clients' connections have closed, the totals are exactly what was written to them."""
    ours = set(ports)
    eventually(
        lambda: not any(connection.port in ours for connection in list(full.gateway.connections.values())),
        "every connection has come to its end",
    )
    streams = [bytes(written[port]) for port in ports if port in written]
    frames = [frame for stream in streams for frame in Framer(1 << 30).feed(stream)]
    assert counted(scraped(full), topic.name) == of_fetches(frames, topic.name)


def test_which_partitions_a_connection_fetches_is_noted_with_each_fetch_that_names_others(
    full: Serving, topic: Topic
) -> None:
    client = full.connect("of its own")
    for named in ((0,), (0,), (1,), (0, 2), (0, 1), (1, 0), ()):
        fetch(client, *((topic, partition, 0) for partition in named))
        [noted] = [
            connection.attribution.fetches["of its own"]
            for connection in list(full.gateway.connections.values())
            if "of its own" in connection.attribution.fetches
        ]
        assert noted.current.keys() == {(topic.name, partition) for partition in named}
        assert noted.last_active_ms > 0
        noted.last_active_ms = 0
    client.close()


def test_under_load_every_scrape_balances(
    full: Serving, fresh: Fresh, topic: Topic, written: dict[int, bytearray]
) -> None:
    """Members and clients without a group, connections cut with responses in flight, groups that come and go."""
    ports: list[int] = []

    def load(number: int) -> None:
        chance = random.Random(number)
        for _ in range(ROUNDS):
            client = full.connect(f"{topic.name}-{number % 3}")
            ports.append(client.port)
            for _ in range(chance.randrange(1, 4)):
                client.request(FETCH, VERSION, fetch_body(*all_of(topic, chance.randrange(60))))
            if chance.random() < 0.5:
                client.reset()
                continue
            client.response(FETCH, VERSION)
            client.close()

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    with scraping(full, seed=7) as scrapes:
        for thread in threads:
            thread.start()
        for number in itertools.count():
            if number >= 6 and len(scrapes) > 3:
                break
            client_id = f"{topic.name}-{number % 3}"
            with full.connect(client_id) as fetching, full.connect(client_id) as coming:
                member = Member(coming, fresh("g"))
                find(coming, 4, member.group)
                member.join()
                member.sync({member.id: assignment(topic.name, *range(PARTITIONS))})
                fetching.exchange(FETCH, VERSION, fetch_body(*all_of(topic)))
                ports.append(fetching.port)
                member.leave()
        for thread in threads:
            thread.join(60)
    assert len(scrapes) > 3
    for name in ("muster_group_fetch_bytes_total", "muster_unattributed_fetch_bytes_total"):
        assert any(scrape.get(name) for scrape in scrapes)
    check_totals(full, topic, written, ports)


def test_what_a_fault_kept_from_the_client_was_not_sent(
    full: Serving, topic: Topic, faults: FaultClient, written: dict[int, bytearray]
) -> None:
    """The Fetch takes effect and its connection is closed without a response; the client retries."""
    before = counted(scraped(full), topic.name)
    faults.inject("close", api="Fetch", phase="after", when="once")
    with full.connect() as client:
        client.request(FETCH, VERSION, fetch_body(*all_of(topic)))
        assert client.is_closed()
    assert counted(scraped(full), topic.name) == before == {"bytes": Counter(), "messages": Counter()}
    with full.connect() as client:
        responses = fetch(client, *all_of(topic), version=VERSION)
        sizes = {(topic.name, str(item.partition_index)): len(item.records) for item in responses}
        assert counted(scraped(full), topic.name)["bytes"] == sizes
        port = client.port
    check_totals(full, topic, written, [port])


@pytest.mark.parametrize("action", ["drop", "error", "close"])
def test_a_fault_at_random_while_everybody_fetches(
    full: Serving, topic: Topic, faults: FaultClient, written: dict[int, bytearray], action: str
) -> None:
    error = {"error": "NOT_LEADER_OR_FOLLOWER"} if action == "error" else {}
    faults.inject(action, api="Fetch", phase="after", when={"probability": 0.4, "seed": 3}, **error)
    ports = []
    with scraping(full, seed=11):
        for _ in range(ROUNDS):
            with full.connect() as client:
                ports.append(client.port)
                with contextlib.suppress(ConnectionError):  # the fault may close it before all is sent
                    for _ in range(3):
                        client.request(FETCH, VERSION, fetch_body(*all_of(topic)))
                    client.send(NO_REQUEST)
                read_to_the_end(client)
    check_totals(full, topic, written, ports)
    faults.clear()
    once = sum(len(item.records) for item in fetch(full.client, *all_of(topic), version=VERSION))
    assert 0 < sum(counted(scraped(full), topic.name)["bytes"].values()) - once < 3 * ROUNDS * once


def test_a_real_consumer_is_counted_for_its_group_while_scrapes_go_on(
    full: Serving, fresh: Fresh, topic: Topic
) -> None:
    group, wanted = fresh("g"), PARTITIONS * sum(range(1, 12))

    async def consume(bootstrap: str) -> str:
        """Consume; return a scrape from before the group is gone, and soon its series, too."""
        consumer = AIOKafkaConsumer(
            topic.name, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", fetch_max_bytes=4_096
        )
        await consumer.start()
        try:
            async with asyncio.timeout(60):
                for _ in range(wanted):
                    await consumer.getone()
            while len(scrapes) <= 3:  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.01)
            while True:
                _, text = await asyncio.to_thread(full.http, "/metrics")
                if not +books(text).get("muster_pending_fetch_messages", Counter()):
                    return text
        finally:
            await consumer.stop()

    with reachable(full) as bootstrap, scraping(full, seed=5) as scrapes:
        last = asyncio.run(consume(bootstrap))
    assert len(scrapes) > 3
    of_group = {
        sample.labels["partition"]: sample.value
        for family in text_string_to_metric_families(last)
        for sample in family.samples
        if sample.name == "muster_group_fetch_messages_total" and sample.labels["group"] == group
    }
    assert of_group == {str(partition): wanted / PARTITIONS for partition in range(PARTITIONS)}

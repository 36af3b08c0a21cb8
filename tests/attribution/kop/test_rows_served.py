"""Rows about the whole path of a request, on real gateways: F10, F18, F24 and F26 to F28.

KoP's rule runs next to Muster's where it decides. Where a row is about KoP's request path or metrics, which cannot run
here, a model of its counting is used (tests.attribution.kop.counting).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from muster.actors.offsets.mapping_writer import MappingWriter
from muster.actors.runtime.process import now_ms
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import Topic
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from tests.attribution.kop.counting import KopCounters
from tests.attribution.kop.kop_rule import KopRule, MemoryStore
from tests.attribution.kop.served import Books, books, join, read, served, settled, write
from tests.gateway.apis.test_data_apis import FETCH, fetch_body
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.serving import Serving, serving
from tests.zookeeper_fixture import eventually

PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}


class ZooKeeperStore(MemoryStore):
    """KoP's own ZooKeeper client, where its rule reads: it waits for a response."""

    def __init__(self, zk: ZooKeeperClient) -> None:
        super().__init__()
        self._zk = zk

    def put(self, path: str, data: bytes) -> None:
        self._zk.create(path, data, makepath=True)

    def get(self, path: str) -> bytes | None:
        data, _ = self._zk.get(path)
        return bytes(data)


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    return full.create(fresh("t"))


def test_f10_a_look_up_without_client_id_is_answered(full: Serving, topic: Topic, fresh: Fresh) -> None:
    """KoP: ``ConcurrentSkipListSet.add(null)`` throws, and the FindCoordinator is never answered."""
    null, empty = fresh("g"), fresh("g")
    for client_id, group in ((None, null), ("", empty)):
        with full.connect(client_id) as client:
            ((_, _, error),) = find(client, 4, group)
            assert error is ErrorCode.none
            join(client, group, topic.name, [0])
    write(full.client, topic)
    with full.connect(None) as client:
        size = read(client, topic)
    assert settled(full, topic.name, size).groups == {null: size}
    with full.connect("") as client:
        size = read(client, topic)
    assert settled(full, topic.name, 2 * size).groups == {null: size, empty: size}


def test_f16_groups_one_after_another_in_one_place(full: Serving, topic: Topic, fresh: Fresh) -> None:
    """KoP: the second group's node is deleted with the first one's connection. In Muster, each group has its bytes at
    once.

    A fetch connection from before the last group left is identified by its second Fetch after that.
    """
    write(full.client, topic)
    groups = [fresh("g") for _ in range(3)]
    size = 0
    for number, group in enumerate(groups, 1):
        with full.connect("rdkafka") as coordinator, full.connect("rdkafka") as reader:
            member = join(coordinator, group, topic.name, [0])
            size = read(reader, topic)
            assert settled(full, topic.name, number * size).groups == dict.fromkeys(groups[:number], size)
            assert member.leave().error_code is ErrorCode.none
    last = fresh("g")
    with full.connect("rdkafka") as coordinator, full.connect("rdkafka") as reader:
        between = join(coordinator, fresh("between"), topic.name, [0])
        member = join(coordinator, last, topic.name, [0])
        read(reader, topic)
        assert between.leave().error_code is ErrorCode.none

        async def settle() -> None:
            full.gateway.account.settle(now_ms() + 1_000)

        def found() -> Books | None:
            """Read again, as a consumer does: the gateway hears of the member that left a moment later."""
            read(reader, topic, offset=1, version=4)
            full.run(settle())
            now = books(full, topic.name)
            return now if not now.pending else None

        now = eventually(found, "the last group's bytes under its label")
        assert (now.sent, now.groups[last]) == (4 * size, size)
        assert member.leave().error_code is ErrorCode.none


@contextmanager
def suspended(server: EmbeddedZooKeeper) -> Iterator[None]:
    """ZooKeeper accepts connections and does not respond: the kernel holds its sockets, the process is stopped."""
    process = psutil.Process(server.pid)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOWAIT)  # until each of its threads has stopped
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def test_f18_nothing_waits_for_zookeeper(tmp_path: Path) -> None:
    """KoP: a FindCoordinator waits for its put, and a fetch for its get (``PartitionLog.handleEntries`` continues with
    ``groupNameFuture.whenCompleteAsync``), so data stop with ZooKeeper; when the get has failed, the label is "" for
    the connection's life (test_f14_a_hiccup_of_zookeeper). Here the coordinators' real writer hangs in the
    background."""
    with EmbeddedZooKeeper.start(tmp_path / "zookeeper") as server, ThreadPoolExecutor(1) as kop_fetches:
        zk = connect(server.hosts, timeout_s=40)  # its end would end the wait, too
        kop = KopRule(ZooKeeperStore(zk))
        assert kop.found_coordinator("c1", "127.0.0.1", "app", ["g"])
        writer = MappingWriter(server.hosts)
        with serving(zk, tmp_path / "storage", PROPERTIES, with_actors=True) as running:
            assert running.actors is not None
            running.actors.sink = writer
            topic = running.create("t")
            find(running.client, 4, "g")
            write(running.client, topic)
            with suspended(server):
                label = kop_fetches.submit(kop.label, "c2", "127.0.0.1", "app")
                member = join(running.connect("app"), "g", "t", [0])
                write(running.client, topic)
                reader = running.connect("app")
                size = read(reader, topic)
                assert member.heartbeat() is ErrorCode.none
                assert {error for _, _, error in member.commit((topic, 0, 2))} == {ErrorCode.none}
                assert settled(running, "t", size).groups == {"g": size}
                assert member.leave().error_code is ErrorCode.none
                assert writer.backlog
                assert not label.done(), "KoP's fetch still waits"
            eventually(lambda: not writer.backlog, "what was held back is written")
        writer.close(5)
        zk.shut()


@pytest.mark.parametrize(
    ("group", "kop_label"),
    [
        ('a"b', None),
        ("a\nb", None),
        ('"} 1\nforged{x="', None),
        ("a\\nb", "a\nb"),
        ("a\\b", "a\\b"),
        ("ü\u2028\x00", "ü\u2028\x00"),
    ],
)
def test_f24_any_group_id_is_a_label(
    full: Serving, topic: Topic, fresh: Fresh, group: str, kop_label: str | None
) -> None:
    """KoP: ``PrometheusTextFormatUtil.writeLabelsNoBraces`` does not escape labels, so one group id with a quote or a
    line break makes the whole scrape unreadable (None), and others get a different name."""
    client_id = fresh("client")
    write(full.client, topic)
    with full.connect(client_id) as coordinator, full.connect(client_id) as client:
        join(coordinator, group, topic.name, [0]).leave()
        size = read(client, topic)
        assert settled(full, topic.name, size).groups == {group: size}
    kop = KopCounters()
    kop.read((topic.name, 0), topic.name, group, size)
    if kop_label is None:
        with pytest.raises(ValueError, match=r"."):
            kop.scraped()
    else:
        assert kop.scraped() == {(topic.name, kop_label): size}


def test_f26_a_topic_has_one_name(full: Serving, topic: Topic, fresh: Fresh) -> None:
    """KoP: the label is the name that the partition's first client used, ``t`` or ``persistent://tenant/ns/t``
    (``PartitionLogManager.getLog`` keeps it). In Muster, Fetch has the topic's name up to v12, and its id from v13
    on."""
    group, client_id = fresh("g"), fresh("client")
    write(full.client, topic)
    with full.connect(client_id) as coordinator, full.connect(client_id) as client:
        join(coordinator, group, topic.name, [0])
        sizes = [read(client, topic, version=version) for version in (4, 12, 13, 18)]
    assert settled(full, topic.name, sum(sizes)).groups == {group: sum(sizes)}
    long, of_two_brokers = f"persistent://public/default/{topic.name}", (KopCounters(), KopCounters())
    for kop, first in zip(of_two_brokers, (topic.name, long), strict=True):
        for named in (first, topic.name, long):
            kop.read((topic.name, 0), named, group, sizes[0])
    assert [set(kop.bytes_out) for kop in of_two_brokers] == [{(topic.name, group)}, {(long, group)}]


def test_f27_bytes_that_had_to_wait_for_more_are_counted_once(full: Serving, topic: Topic, fresh: Fresh) -> None:
    """KoP: a fetch that finds less than fetch.min.bytes has read and counted that (``ReplicaManager.fetchMessage``),
    and when its time is over, ``DelayedFetch.onComplete`` reads and counts it again."""
    group, client_id = fresh("g"), fresh("client")
    with full.connect(client_id) as coordinator, full.connect(client_id) as client:
        join(coordinator, group, topic.name, [0])
        write(full.client, topic)
        client.request(FETCH, 18, fetch_body((topic, 0, 0), min_bytes=100_000, max_wait=60_000))
        written = 1
        while client.has_nothing_for(0.02):
            write(full.client, topic, value=b"v" * 50_000)
            written += 1
        ((result,),) = ([*part.partitions] for part in client.response(FETCH, 18).responses)
        assert written > 2
    size = len(result.records)
    assert size >= 100_000
    assert settled(full, topic.name, size).groups == {group: size}
    kop = KopCounters()
    kop.fetch((topic.name, 0), topic.name, group, size // written, size)
    assert kop.bytes_out[topic.name, group] > size


def test_f28_what_was_not_sent_is_not_counted(full: Serving, topic: Topic, fresh: Fresh) -> None:
    """KoP counts when it decodes, before the response is written, and so also counts what a closed channel or an
    expired request never delivers."""
    client_id = fresh("client")
    with full.connect(client_id) as coordinator:
        group = fresh("g")
        join(coordinator, group, topic.name, [0])
        before = len(full.gateway.connections)
        with full.connect(client_id) as client:
            client.request(FETCH, 18, fetch_body((topic, 0, 0), min_bytes=1, max_wait=60_000))
            eventually(lambda: any(one.waiting for one in list(full.gateway.connections.values())), "the fetch waits")
        eventually(lambda: len(full.gateway.connections) == before, "the gateway knows that the client is gone")
        write(full.client, topic)
        assert books(full, topic.name).sent == 0
        with full.connect(client_id) as client:
            size = read(client, topic)
    assert settled(full, topic.name, size).groups == {group: size}
    kop = KopCounters()
    kop.fetch((topic.name, 0), topic.name, group, size)  # for the client that had disconnected
    kop.fetch((topic.name, 0), topic.name, group, size)
    assert kop.bytes_out[topic.name, group] == 2 * size


def test_f28_a_response_that_waits_for_its_turn_is_not_sent_yet(full: Serving, topic: Topic, fresh: Fresh) -> None:
    """Responses leave in the order of the requests: that of a Fetch is ready behind a JoinGroup that waits for another
    member, and then the client disconnects."""
    group, client_id = fresh("g"), fresh("client")
    write(full.client, topic)
    with full.connect(client_id) as coordinator:
        join(coordinator, group, topic.name, [0])
        open_before, served_before = len(full.gateway.connections), served(full, "Fetch")
        with full.connect(client_id) as client:
            waiting = Member(client, group)
            waiting.request_join()
            assert waiting.joined().error_code is ErrorCode.member_id_required
            waiting.request_join()
            client.request(FETCH, 18, fetch_body((topic, 0, 0)))
            eventually(lambda: served(full, "Fetch") > served_before, "the response to the Fetch is ready")
            assert client.has_nothing_for(0)
        eventually(lambda: len(full.gateway.connections) == open_before, "the gateway knows that the client is gone")
        assert books(full, topic.name).sent == 0

"""One process after the other is killed with SIGKILL while real clients work; what they must not notice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import API_VERSIONS
from muster.placement.hashing import partition_for
from muster.placement.layout import CLIENT_GROUP_ID
from tests.cluster.consumer_groups.groups import PARTITIONS, WAIT_S, create, until_read, working
from tests.cluster.consumer_groups.members import (
    AiokafkaMember,
    ConfluentMember,
    Gap,
    KafkaPythonMember,
    Member,
    Producer,
    committed_offsets,
    everything,
)
from tests.muster_process import Muster, eventually
from tests.recording.history import held_at
from tests.table_rows import table_rows

pytestmark = pytest.mark.ring(name="failover")

COUNT = 600


@pytest.fixture
def topic(muster: Muster, fresh: Callable[[str], str]) -> str:
    name = fresh("failover")
    create(muster, name)
    return name


def offsets_actor(group: str) -> str:
    return f"offsets-{partition_for(group, 50)}"


def measured(record_property: Callable[[str, object], None], what: str, seconds: float) -> None:
    """Add a measurement to the report of the test run; shown with ``-s``."""
    record_property(what, round(seconds, 2))
    print(f"{what}: {seconds:.2f} s")


@pytest.mark.parametrize("third", [KafkaPythonMember, AiokafkaMember])
def test_a_group_outlives_its_coordinator(
    muster: Muster, fresh: Callable[[str], str], topic: str, third: type[Member], record_property: Any
) -> None:
    group = fresh("g")
    strategy = "range" if third is KafkaPythonMember else "roundrobin"
    members = [
        *(
            ConfluentMember(muster.bootstrap, topic, group, **{"partition.assignment.strategy": strategy})
            for _ in range(2)
        ),
        third(muster.bootstrap, topic, group),
    ]
    producer = Producer(muster.bootstrap, topic)
    with working(*members):
        producer.send(COUNT)
        producer.flush()
        until_read(members, COUNT)
        before = [(member.identity(), member.rebalances, member.assigned) for member in members]
        committed = committed_offsets(muster.bootstrap, group, topic, PARTITIONS)
        pid = muster.kill_actor(offsets_actor(group))
        for member in members:
            member.gap.start()
        producer.send(COUNT, pause_s=0.005)
        producer.flush()
        until_read(members, 2 * COUNT)
        muster.until_back(offsets_actor(group), pid)
        after = committed_offsets(muster.bootstrap, group, topic, PARTITIONS)
        described = json.loads(muster.cli("groups", "describe", group, "--json"))
        assert [(member.identity(), member.rebalances, member.assigned) for member in members] == before
    assert described["state"] == "Stable"
    assert {each["member_id"] for each in described["members"]} == {identity[0] for identity, _, _ in before}
    assert all(after[partition] >= offset for partition, offset in committed.items())
    assert sum(after.values()) == 2 * COUNT
    assert sum(len(member.read) for member in members) == 2 * COUNT, "nothing is read twice"
    assert_the_tables_record_it(muster, group, {identity[0] for identity, _, _ in before}, after)
    measured(record_property, "offsets actor killed, longest commit gap", max(m.gap.longest_s for m in members))


def assert_the_tables_record_it(muster: Muster, group: str, member_ids: set[str], committed: dict[int, int]) -> None:
    """For a group whose members have left: its members and positions, under more than one coordinator."""

    def rows(table: str) -> list[dict[str, Any]]:
        return [row for row in table_rows(muster.storage, table) if row["group"] == group]

    def stood() -> dict[int, int]:
        return {row["partition"]: row["offset"] for row in rows("commits")}

    def events() -> list[dict[str, Any]]:
        return sorted(rows("group_events"), key=lambda row: (row["epoch"], row["number"]))

    eventually(stood, lambda offsets: offsets == committed, "the last commits are in the table", WAIT_S)
    recorded = eventually(events, lambda found: bool(found) and found[-1]["members"] == 0, "the group is Empty", WAIT_S)
    for event in ("member_added", "member_left"):
        assert {row["member_id"] for row in recorded if row["event"] == event} == member_ids
    later = sorted({row["epoch"] for row in recorded})[1:]
    restored = {row["epoch"]: row["members"] for row in recorded if row["event"] == "restored"}
    assert restored == dict.fromkeys(later, len(member_ids))
    assert later
    eventually(lambda: rows("registrations")[-1]["event"], lambda event: event == "withdrawn", "withdrawn", WAIT_S)
    every = table_rows(muster.storage, "registrations")
    before_ms = next(row["ts"] for row in rows("registrations") if row["event"] == "withdrawn") - 1
    held = [row for row in held_at(every, before_ms).values() if row["group"] == group]
    assert {row["member_id"] for row in held} == member_ids
    assert sorted(each["partition"] for row in held for each in row["partitions"]) == [*range(PARTITIONS)]
    assert {row["epoch"] for row in held} <= set(later)


def test_an_acknowledged_commit_is_never_lost(
    muster: Muster, fresh: Callable[[str], str], topic: str, record_property: Any
) -> None:
    group = fresh("g")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": muster.bootstrap, "group.id": group})
    acknowledged: list[int] = []
    gap = Gap()
    stop = threading.Event()

    def commit_without_end() -> None:
        offset = 0
        while not stop.is_set():
            offset += 1
            try:
                consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
            except confluent_kafka.KafkaException:
                continue
            acknowledged.append(offset)
            gap.mark()

    def committed() -> int:
        return committed_offsets(muster.bootstrap, group, topic, 1)[0]

    loop = threading.Thread(target=commit_without_end, daemon=True)
    loop.start()
    eventually(lambda: len(acknowledged), lambda n: n > 100, "commits", WAIT_S)
    gap.start()
    pid = muster.kill_actor(offsets_actor(group))
    last = acknowledged[-1]
    assert committed() >= last
    eventually(lambda: acknowledged[-1], lambda n: n > last + 50, "commits after the kill", WAIT_S)
    stop.set()
    loop.join(WAIT_S)
    assert not loop.is_alive(), "a commit that is never answered"
    assert committed() == acknowledged[-1]
    assert acknowledged == sorted(acknowledged)
    consumer.close()
    muster.until_back(offsets_actor(group), pid)
    measured(record_property, "offsets actor killed, longest gap of a committing loop", gap.longest_s)


def test_a_gateway_is_replaced_and_nobody_loses_anything(
    muster: Muster, fresh: Callable[[str], str], topic: str, record_property: Any
) -> None:
    members = [
        kind(muster.bootstrap, topic, fresh("g")) for kind in (ConfluentMember, KafkaPythonMember, AiokafkaMember)
    ]
    producer = Producer(muster.bootstrap, topic)
    with working(*members):
        producer.send(COUNT)
        for member in members:
            until_read([member], COUNT)
        before = [(member.identity(), member.rebalances) for member in members]
        address = muster.actors()["gateway-1"]["address"]
        pid = muster.kill_actor("gateway-1")
        killed_s = time.monotonic()
        for working_client in (producer, *members):
            working_client.gap.start()
        producer.send(COUNT, pause_s=0.005)
        producer.flush()
        for member in members:
            until_read([member], 2 * COUNT)
        back = muster.until_back("gateway-1", pid)
        measured(record_property, "gateway killed, seen back by muster status", time.monotonic() - killed_s)
        assert [(member.identity(), member.rebalances) for member in members] == before
    assert back["address"] == address
    brokers = AdminClient({"bootstrap.servers": address}).list_topics(timeout=WAIT_S).brokers
    assert {broker.id: f"{broker.host}:{broker.port}" for broker in brokers.values()} == {
        number + 1: each for number, each in enumerate(muster.ready["bootstrap"])
    }
    for member in members:
        assert sorted(set(member.values())) == sorted(producer.acknowledged)
    assert_gapless_and_complete(muster, topic, producer)
    groups = {member.group for member in members}
    eventually(lambda: attributed(muster, topic), lambda found: found == dict.fromkeys(groups, 2 * COUNT), "attributed")
    measured(record_property, "gateway killed, longest gap of the producer", producer.gap.longest_s)
    for member in members:
        measured(record_property, f"gateway killed, longest commit gap, {type(member).__name__}", member.gap.longest_s)


def attributed(muster: Muster, topic: str) -> dict[str | None, int]:
    """How many records of the topic were sent for each group, by the samples; None: for no known group."""
    sent: defaultdict[str | None, set[tuple[int, int]]] = defaultdict(set)
    for row in table_rows(muster.storage, "samples"):
        if row["topic"] == topic:
            offsets = range(row["first_offset"], row["last_offset"] + 1)
            sent[row["group"]].update((row["partition"], offset) for offset in offsets)
    return {group: len(records) for group, records in sent.items()}


def test_the_address_of_a_killed_gateway_stays_open(muster: Muster, record_property: Any) -> None:
    """Who connects meanwhile is served by the standby."""
    host, _, port = muster.actors()["gateway-1"]["address"].rpartition(":")
    request = codec.encode_request(API_VERSIONS, 0, 1, "a client", {})
    for _ in range(3):
        pid = muster.kill_actor("gateway-1")
        killed_s = time.monotonic()
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
            connection.sendall(len(request).to_bytes(4, "big") + request)
            assert len(connection.recv(4)) == 4
        measured(record_property, "gateway killed, first response at its address", time.monotonic() - killed_s)
        muster.until_back("gateway-1", pid)


def assert_gapless_and_complete(muster: Muster, topic: str, producer: Producer) -> None:
    """Every acknowledged record is in the topic once, at its acknowledged offset, and no offset is missing."""
    records = everything(muster.bootstrap, topic, PARTITIONS, producer.sent)
    values = [value for _, _, value in records]
    assert len(values) == len(set(values)) == producer.sent
    producer.check(records)
    for partition in range(PARTITIONS):
        offsets = [offset for of, offset, _ in records if of == partition]
        assert offsets == list(range(len(offsets)))


def test_a_log_actor_loses_and_repeats_nothing(
    muster: Muster, fresh: Callable[[str], str], topic: str, record_property: Any
) -> None:
    member = KafkaPythonMember(muster.bootstrap, topic, fresh("g"))
    producer = Producer(muster.bootstrap, topic)
    pids = {name: actor["pid"] for name, actor in muster.actors().items() if name.startswith("log-")}
    with working(member):
        producer.send(COUNT)
        until_read([member], COUNT)
        producer.gap.start()
        member.gap.start()
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
            producer.send(COUNT, pause_s=0.002)
            producer.flush()
        until_read([member], producer.sent)
        for name, pid in pids.items():
            muster.until_back(name, pid)
    assert len(member.read) == producer.sent, "read once"
    assert_gapless_and_complete(muster, topic, producer)
    measured(record_property, "log actors killed, longest gap of the producer", producer.gap.longest_s)
    measured(record_property, "log actors killed, longest commit gap of the consumer", member.gap.longest_s)


@contextlib.contextmanager
def metadata_always_names(muster: Muster, brokers: set[int]) -> Iterator[None]:
    """Metadata, requested continuously, names these brokers every time."""
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    named: set[frozenset[int]] = set()
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            named.add(frozenset(admin.list_topics(timeout=WAIT_S).brokers))

    thread = threading.Thread(target=exchange, daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join(WAIT_S)
    assert named == {frozenset(brokers)}


def test_clients_do_not_need_the_controller(
    muster: Muster, fresh: Callable[[str], str], topic: str, record_property: Any
) -> None:
    group = fresh("g")
    first, second = (ConfluentMember(muster.bootstrap, topic, group) for _ in range(2))
    producer = Producer(muster.bootstrap, topic)
    with working(first), metadata_always_names(muster, {1, 2}):
        producer.send(COUNT)
        until_read([first], COUNT)
        pid = muster.kill_actor("controller")
        killed_s = time.monotonic()
        producer.gap.start()
        producer.send(COUNT, pause_s=0.005)
        producer.flush()
        until_read([first], 2 * COUNT)
        with working(second, beside=(first,)):
            eventually(lambda: len(first.assigned), lambda n: n == PARTITIONS // 2, "the second joins", WAIT_S)
        eventually(lambda: len(first.assigned), lambda n: n == PARTITIONS, "the second leaves", WAIT_S)
        measured(record_property, "controller killed, consumed and rebalanced twice", time.monotonic() - killed_s)
        assert first.refused == []
    create(muster, fresh("made-after"))
    measured(record_property, "controller killed, a topic is created", time.monotonic() - killed_s)
    eventually(lambda: muster.actors()["controller"]["pid"], lambda now: now != pid, "a new controller", WAIT_S)
    muster.until_all_serve()
    assert producer.gap.longest_s < 2, "work went on while there was no controller"


def test_the_mapping_is_written_back(
    muster: Muster, fresh: Callable[[str], str], topic: str, record_property: Any
) -> None:
    members = [ConfluentMember(muster.bootstrap, topic, fresh("g"), **{"client.id": f"mapped-{n}"}) for n in range(2)]
    zk = muster.zookeeper()

    def mapping() -> set[str]:
        return {
            f"{host}/{client}/{name}"
            for host in zk.get_children(CLIENT_GROUP_ID)
            for client in zk.get_children(f"{CLIENT_GROUP_ID}/{host}")
            if client.startswith("mapped-")  # members of earlier tests leave, and some are never written back
            for name in zk.get_children(f"{CLIENT_GROUP_ID}/{host}/{client}")
        }

    try:
        with working(*members):
            before = eventually(mapping, lambda names: len(names) == len(members), "the members' nodes", WAIT_S)
            pid = muster.kill_actor("reconciler")
            for host in zk.get_children(CLIENT_GROUP_ID):
                zk.delete(f"{CLIENT_GROUP_ID}/{host}", recursive=True)
            deleted_s = time.monotonic()
            eventually(mapping, lambda names: names == before, "everything is written back", WAIT_S)
            measured(record_property, "reconciler killed, mapping written back", time.monotonic() - deleted_s)
            muster.until_back("reconciler", pid)
        eventually(mapping, lambda names: not names, "they are gone", WAIT_S)
    finally:
        zk.shut()

"""Shared steps and observations of tests of consumer groups. Topics have PARTITIONS partitions."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, NewTopic

from examples.demo.observer import Observer
from muster.actors.group.codec.records import CommittedOffset, OffsetKey, decode_key, decode_value
from muster.placement.hashing import partition_for
from tests.cluster.consumer_groups.members import Member, Producer, committed_offsets
from tests.muster_process import Muster, eventually

PARTITIONS = 6
ALL = frozenset(range(PARTITIONS))
WAIT_S = 120
_OFFSETS_TOPIC, _OFFSETS_PARTITIONS = "__consumer_offsets", 50


class Commit(NamedTuple):
    topic: str
    partition: int
    offset: int


def create(muster: Muster, topic: str) -> None:
    """Like an administrator: retries while a controller that an earlier test has killed is unavailable."""
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    deadline_s = time.monotonic() + WAIT_S
    while True:
        try:
            admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(WAIT_S)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            if code != KafkaError.REQUEST_TIMED_OUT or time.monotonic() > deadline_s:
                raise
        else:
            return


@contextlib.contextmanager
def working(*members: Member, beside: Sequence[Member] = ()) -> Iterator[None]:
    """Join the members to their groups (``beside`` already have), all with partitions; at the end they leave."""
    for member in members:
        member.start()
    try:
        until_settled(members, beside)
        yield
    finally:
        leave(members)


@contextlib.contextmanager
def sending(producer: Producer, pause_s: float = 0.001) -> Iterator[None]:
    """Under load: a record per ``pause_s`` or less."""
    stop = threading.Event()
    thread = threading.Thread(target=producer.send_until, args=(stop, pause_s), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(WAIT_S)


def until_settled(members: Sequence[Member], beside: Sequence[Member] = ()) -> None:
    """Until each of the members has partitions, and they and ``beside`` together own all partitions of their groups."""

    def settled() -> bool:
        assigned: dict[str, int] = {}
        for member in (*members, *beside):
            assert member.fatal is None, member.fatal
            assigned[member.group] = assigned.get(member.group, 0) + len(member.assigned)
        return all(member.assigned for member in members) and set(assigned.values()) == {PARTITIONS}

    eventually(settled, bool, "all members have partitions", WAIT_S)


def leave(members: Sequence[Member]) -> None:
    """Close them concurrently."""
    for member in members:
        member.begin_to_leave()
    for member in members:
        member.leave()


def until_read(members: Sequence[Member], count: int) -> None:
    """Until the members have together read that many different records, and committed all of them."""

    def state() -> tuple[int, int, object, Sequence[Member]]:
        records = {(partition, offset) for member in members for partition, offset, _ in list(member.read)}
        committed = sum(sum(member.committed.values()) for member in members)
        assert not [member.fatal for member in members if member.fatal]
        return len(records), committed, [_unread(member) for member in members], members

    what = f"{count} records read and committed by {members[0].group}"
    eventually(state, lambda now: min(now[:2]) >= count, what, WAIT_S)


def _unread(member: Member) -> dict[int, list[int]]:
    """Return the offsets that the member has committed without having read them, by partition: for a failure."""
    read: dict[int, set[int]] = {}
    for partition, offset, _ in list(member.read):
        read.setdefault(partition, set()).add(offset)
    ends = dict(member.committed).items()
    return {partition: [*{*range(end)}.difference(read.get(partition, ()))] for partition, end in ends}


def until_committed(muster: Muster, group: str, topic: str, count: int) -> None:
    """Until the group has committed that many records of the topic, from its start."""
    read = lambda: committed_offsets(muster.bootstrap, group, topic, PARTITIONS)  # noqa: E731
    eventually(read, lambda offsets: sum(offsets.values()) >= count, f"{count} records committed by {group}", WAIT_S)


def until_assigned(member: Member, partitions: frozenset[int]) -> None:
    eventually(lambda: member.assigned, lambda now: now == partitions, f"{member.name} has {set(partitions)}", WAIT_S)


def describe(muster: Muster, group: str, **options: Any) -> ConsumerGroupDescription:
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    description: ConsumerGroupDescription = admin.describe_consumer_groups([group], **options)[group].result(WAIT_S)
    return description


def assignments(muster: Muster, group: str) -> list[list[int]]:
    """Return the coordinator's member ids, sorted."""
    members = describe(muster, group).members
    return sorted(sorted(each.partition for each in member.assignment.topic_partitions) for member in members)


def rebalances_since(muster: Muster, group: str, generation: int) -> list[dict[str, Any]]:
    """Entries of the group's journal that led to a newer generation, newest first."""
    history = muster.ready["metrics"][0].removesuffix("metrics") + f"v1/groups/history?group={group}&limit=10"
    with urllib.request.urlopen(history, timeout=WAIT_S) as response:
        return [entry for entry in json.load(response)["entries"] if (entry["generation"] or 0) > generation]


def generation(muster: Muster, group: str) -> int:
    """Return the group's generation, which only a member's Heartbeat reveals. The group has members."""
    found = Observer(muster.bootstrap, "").membership(group).generation
    assert found is not None, f"{group} accepts no generation"
    return found


def commits(muster: Muster, group: str) -> list[Commit]:
    """Every offset that the group ever committed, in order, from its partition of ``__consumer_offsets``."""
    partition = partition_for(group, _OFFSETS_PARTITIONS)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": muster.bootstrap, "group.id": "none", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(_OFFSETS_TOPIC, partition, 0)])
    found: list[Commit] = []
    at_end = False

    def read() -> bool:
        nonlocal at_end
        for message in consumer.consume(1000, 1.0):
            error = message.error()
            at_end = at_end or (error is not None and error.code() == KafkaError._PARTITION_EOF)
            if error is None:
                _note(found, group, message.key() or b"", message.value())
        return at_end

    eventually(read, bool, f"the end of {_OFFSETS_TOPIC}-{partition}", WAIT_S)
    consumer.close()
    return found


def _note(found: list[Commit], group: str, key: bytes, value: bytes | None) -> None:
    match decode_key(key):
        case OffsetKey(group=of, topic=topic, partition=partition) as offset_key if of == group and value is not None:
            committed = decode_value(offset_key, value)
            assert isinstance(committed, CommittedOffset)
            found.append(Commit(topic, partition, committed.offset))

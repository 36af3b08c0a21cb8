"""Data remain in the storage directory: after an orderly stop, and after SIGKILL of everything at once."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil
import pytest
from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from tests.cluster.consumer_groups.groups import generation
from tests.cluster.consumer_groups.members import ConfluentMember, Producer, committed_offsets, everything
from tests.muster_process import Muster, eventually

WAIT_S = 60
TOPIC, GROUP, LOOP_GROUP, MEMBERS_GROUP = "kept", "readers", "loop", "members"
PARTITIONS, COUNT = 3, 300
_ALTERED = {
    (ResourceType.TOPIC, TOPIC): ("segment.ms", "999000"),
    (ResourceType.BROKER, "1"): ("max.connections", "500"),
    (ResourceType.GROUP, GROUP): ("consumer.session.timeout.ms", "50000"),
}
_ALTERED_SOURCES = {ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.GROUP_CONFIG}
_entry = partial(ConfigEntry, incremental_operation=AlterConfigOpType.SET)
# Four offsets partitions: each is a process, and all of them start three times.
_PROPERTIES = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


def processes_of(storage: Path) -> list[psutil.Process]:
    """Every process with the storage directory in its arguments or its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            texts = [*process.cmdline(), *process.environ().values()]
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if any(str(storage) in text for text in texts):
            found.append(process)
    return found


def nothing_is_left(storage: Path) -> None:
    eventually(lambda: processes_of(storage), lambda left: not left, "every process has ended", WAIT_S)


def shown(muster: Muster) -> dict[str, Any]:
    """Return the topic's id, number of partitions and configuration, altered configs, and the groups."""
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    topic = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(WAIT_S)
    groups = admin.list_consumer_groups().result(WAIT_S)
    assert not groups.errors
    return {
        "id": str(topic.topic_id),
        "partitions": len(topic.partitions),
        "configs": {
            resource.name: {
                entry.name: entry.value
                for entry in configs.result(WAIT_S).values()
                if ConfigSource(entry.source) in _ALTERED_SOURCES
            }
            for resource, configs in admin.describe_configs([ConfigResource(*each) for each in _ALTERED]).items()
        },
        "groups": {group.group_id for group in groups.valid},
    }


def fill(muster: Muster, producer: Producer) -> None:
    """Create a topic with its own configuration and records, and a group that has read and committed them."""
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, config={"retention.ms": "777000"})])[TOPIC].result(WAIT_S)
    altered = [ConfigResource(*each, incremental_configs=[_entry(*config)]) for each, config in _ALTERED.items()]
    for done in admin.incremental_alter_configs(altered).values():
        done.result(WAIT_S)
    producer.send(COUNT)
    producer.flush()
    member = ConfluentMember(muster.bootstrap, TOPIC, GROUP)
    member.start()
    eventually(lambda: sum(member.committed.values()), lambda n: n == COUNT, "all is committed", WAIT_S)
    member.leave()


class CommitLoop(threading.Thread):
    """Commits one offset after the other until there is no response any more."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.stop = threading.Event()
        quiet = {"log_level": 0}  # its broker is killed and never restarted
        self._consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": LOOP_GROUP, **quiet})

    def run(self) -> None:
        while not self.stop.is_set():
            offset = self.acknowledged + 1
            try:
                self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
            except confluent_kafka.KafkaException:
                continue
            self.acknowledged = offset


class Staying:
    """Two members of a group that know nothing of what happens to the cluster."""

    def __init__(self, bootstrap: str) -> None:
        patient = {"session.timeout.ms": 180000}  # librdkafka counts too, while no broker is available
        self._members = [ConfluentMember(bootstrap, TOPIC, MEMBERS_GROUP, **patient) for _ in range(2)]
        for member in self._members:
            member.start()
        until_assigned = lambda: [len(member.assigned) for member in self._members]  # noqa: E731
        eventually(
            until_assigned, lambda counts: all(counts) and sum(counts) == PARTITIONS, "both have partitions", WAIT_S
        )

    def until_known(self) -> None:
        """Until both have reported their member ids, which they know with their first commit."""
        reported = lambda: [member.identity() for member in self._members]  # noqa: E731
        eventually(reported, lambda identities: (None,) not in identities, "both have committed", WAIT_S)

    def stability(self) -> object:
        """Return the state that a rebalance would change, as the members see it."""
        return [(member.identity(), member.rebalances, frozenset(member.assigned)) for member in self._members]

    def until_read(self, *acknowledged: dict[bytes, tuple[int, int]]) -> None:
        """Until they have read the records at these places."""
        places = {place for promised in acknowledged for place in promised.values()}
        read = lambda: {(partition, at) for m in self._members for partition, at, _ in list(m.read)}  # noqa: E731
        eventually(read, places.issubset, "the members read on", WAIT_S)

    def leave(self) -> None:
        for member in self._members:
            member.leave()


@pytest.mark.timeout(400)
def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    muster = Muster(storage, ["--gateways", "1"], _PROPERTIES)
    with muster:
        producer = Producer(muster.bootstrap, TOPIC)
        fill(muster, producer)
        before = shown(muster)
        committed = committed_offsets(muster.bootstrap, GROUP, TOPIC, PARTITIONS)
        assert muster.stop() == 0
    nothing_is_left(storage)
    assert before["configs"] == {
        TOPIC: {"retention.ms": "777000", "segment.ms": "999000"},
        "1": {"max.connections": "500"},
        GROUP: {"consumer.session.timeout.ms": "50000"},
    }
    assert sum(committed.values()) == COUNT

    with muster:
        assert shown(muster) == before
        assert committed_offsets(muster.bootstrap, GROUP, TOPIC, PARTITIONS) == committed
        assert_kept(muster, producer.acknowledged)
        killed, loop = Producer(muster.bootstrap, TOPIC, **{"message.timeout.ms": 5000}), CommitLoop(muster.bootstrap)
        loop.start()
        feeder = threading.Thread(target=killed.send_until, args=(loop.stop,), daemon=True)
        feeder.start()
        eventually(lambda: len(killed.acknowledged), lambda n: n > COUNT, "acknowledged records")
        eventually(lambda: loop.acknowledged, lambda n: n > 50, "acknowledged commits")
        staying = Staying(muster.bootstrap)
        staying.until_read(producer.acknowledged)
        staying.until_known()
        stable, generation_before = staying.stability(), generation(muster, MEMBERS_GROUP)
        muster.arguments += ["--port", muster.bootstrap.rpartition(":")[2], "--set", "metrics.port=0"]
        muster.kill_everything()
        loop.stop.set()
        feeder.join(WAIT_S)
        killed.drain()
        assert killed.failed, "it was killed while records were on their way"
    nothing_is_left(storage)

    with muster:
        assert shown(muster) == before | {"groups": before["groups"] | {LOOP_GROUP, MEMBERS_GROUP}}
        assert committed_offsets(muster.bootstrap, GROUP, TOPIC, PARTITIONS) == committed
        assert_kept(muster, producer.acknowledged, killed.acknowledged)
        acknowledged = loop.acknowledged  # the commit that the kill interrupted may yet succeed here
        kept = committed_offsets(muster.bootstrap, LOOP_GROUP, TOPIC, 1)[0]
        assert acknowledged <= kept <= acknowledged + 1
        later = Producer(muster.bootstrap, TOPIC)
        later.send(COUNT)
        later.flush()
        staying.until_read(killed.acknowledged, later.acknowledged)
        assert (staying.stability(), generation(muster, MEMBERS_GROUP)) == (stable, generation_before)
        staying.leave()
        assert muster.stop() == 0
    nothing_is_left(storage)


def assert_kept(muster: Muster, *acknowledged: dict[bytes, tuple[int, int]]) -> None:
    """Each acknowledged record is at its acknowledged offset, and the offsets have no gap."""
    records = everything(muster.bootstrap, TOPIC, PARTITIONS)
    for partition in range(PARTITIONS):
        offsets = [offset for of, offset, _ in records if of == partition]
        assert offsets == list(range(len(offsets)))
    there = {(partition, offset): value for partition, offset, value in records}
    for promised in acknowledged:
        assert {value: place for value, place in promised.items() if there.get(place) != value} == {}

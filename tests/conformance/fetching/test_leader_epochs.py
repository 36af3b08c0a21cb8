"""Leader epochs, as Kafka's own broker has them, and a Java consumer whose log changes its leader epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from tests.conformance.artifacts import Kafka
from tests.conformance.clients import VerifiableConsumer, wait_until
from tests.conformance.fetching.test_fetch_sessions import METADATA, new_topic
from tests.conformance.topics import create_topic, ends, fill, now_ms
from tests.gateway.apis.test_data_apis import FETCH, LATEST, fetch_body, produce
from tests.gateway.serving import Client
from tests.log.support import client_batch
from tests.muster_process import Muster, eventually

LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH = 2, 23
Fresh = Callable[[str], str]


def epoch_of(client: Client, name: str) -> int:
    body = {
        "topics": [{"name": name, "topic_id": None}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    (found,) = client.exchange(METADATA, 12, body).topics
    return int(found.partitions[0].leader_epoch)


def test_epochs_of_a_partition(bootstrap: str, fresh: Fresh) -> None:
    """Relative to the current one."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with Client(int(port), host=host) as client:
        topic = new_topic(client, bootstrap, fresh("epochs"), 1)
        produce(client, (topic, 0, client_batch(3)), version=9)
        epoch = epoch_of(client, topic.name)
        assert epoch >= 0

        def end_of(wanted: int, current: int) -> tuple[str, int, int]:
            item = {"partition": 0, "current_leader_epoch": current, "leader_epoch": wanted}
            body = {"replica_id": -1, "topics": [{"topic": topic.name, "partitions": [item]}]}
            (found,) = client.exchange(OFFSET_FOR_LEADER_EPOCH, 4, body).topics[0].partitions
            return found.error_code.name, found.leader_epoch, found.end_offset

        assert end_of(epoch, -1) == ("none", epoch, 3)
        assert end_of(epoch, epoch) == ("none", epoch, 3)
        assert end_of(epoch + 1, epoch) == ("none", -1, -1)
        assert end_of(-1, epoch) == ("none", -1, -1)
        assert end_of(epoch, epoch + 1) == ("unknown_leader_epoch", -1, -1)

        def fetched(offset: int, **epochs: int) -> Any:
            body = fetch_body((topic, 0, offset), max_wait=0)
            body["topics"][0]["partitions"][0] |= epochs
            return client.exchange(FETCH, 12, body).responses[0].partitions[0]

        assert fetched(0, current_leader_epoch=epoch).error_code is ErrorCode.none
        assert fetched(0, current_leader_epoch=epoch + 1).error_code is ErrorCode.unknown_leader_epoch
        assert fetched(3, last_fetched_epoch=epoch).error_code is ErrorCode.none
        assert fetched(3, last_fetched_epoch=epoch + 1).error_code is ErrorCode.offset_out_of_range
        item = {"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": epoch}
        topics = [{"name": topic.name, "partitions": [item]}]
        body = {"replica_id": -1, "isolation_level": 0, "topics": topics, "timeout": 1_000}
        (listed,) = client.exchange(LIST_OFFSETS, 9, body).topics[0].partitions
        assert (listed.offset, listed.leader_epoch) == (3, epoch)


def test_a_java_consumer_validates_its_position(muster: Muster, release: Kafka, fresh: Fresh) -> None:
    """Its log actors are killed: the leader epochs change, and it reads each record once."""
    topic = fresh("epochs")
    create_topic(muster.bootstrap, topic, 4)
    host, _, port = muster.bootstrap.split(",")[0].rpartition(":")
    consumer = VerifiableConsumer(release, muster.bootstrap, "java", topic=topic, group=topic)
    with consumer, Client(int(port), host=host) as client:
        for partition in range(4):
            fill(muster.bootstrap, topic, partition, [now_ms()] * 25)
        wait_until(lambda: len(consumer.values()) >= 100, "it reads all records", consumer)
        before = epoch_of(client, topic)
        for name in ("log-0", "log-1"):
            muster.kill_actor(name)
        eventually(lambda: ends(muster.bootstrap, topic, 4), lambda found: sum(found.values()) == 100, "logs serve")
        for partition in range(4):
            fill(muster.bootstrap, topic, partition, [now_ms()] * 25)
        wait_until(lambda: len(consumer.values()) >= 200, "it reads all records", consumer)
        assert epoch_of(client, topic) > before
        assert len(consumer.values()) == 200
        validated = [line for line in consumer.log if "OffsetForLeaderEpoch" in line or "truncat" in line.lower()]
        assert not [line for line in validated if "truncat" in line.lower()]

"""Calls of a Cluster, on a private Muster, and by Kafka's protocol alone, as on a real Kafka."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import muster
from muster.gateway.client.lag import existing
from muster.gateway.client.security import read_security
from tests.certificates import Authority

_WAIT_S = 60


@pytest.fixture(params=["http", "kafka"])
def cluster(kafka: muster.Cluster, request: pytest.FixtureRequest) -> muster.Cluster:
    """Return the private Muster; once as if it were a real Kafka, of which only brokers are known."""
    return kafka if request.param == "http" else dataclasses.replace(kafka, http=())


def produce(cluster: muster.Cluster, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer(cluster.client(linger_ms=1))
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(_WAIT_S) == 0


def commit(cluster: muster.Cluster, group: str, *offsets: tuple[str, int, int]) -> None:
    consumer = Consumer(cluster.client(group_id=group))
    consumer.commit(offsets=[TopicPartition(*each) for each in offsets], asynchronous=False)
    consumer.close()


def test_a_topic_is_created_once(kafka: muster.Cluster, fresh: Callable[[str], str]) -> None:
    name = fresh("topic")
    config = {"cleanup.policy": "compact,delete", "retention.ms": "86400000"}
    assert kafka.topic(name, partitions=3, config=config) == name
    assert kafka.topic(name, partitions=3, config={"cleanup.policy": "delete, compact"}) == name
    assert kafka.topic(name, partitions=3) == name


@pytest.mark.parametrize(
    ("partitions", "config", "differences"),
    [
        (2, {}, "3 partitions, not 2"),
        (3, {"retention.ms": "1"}, "retention.ms=86400000, not 1"),
        (1, {"retention.ms": "86400000", "cleanup.policy": "compact"}, "3 partitions, not 1 and cleanup.policy=delete"),
        (3, {"no.such.config": "1"}, "no.such.config=None, not 1"),
    ],
)
def test_a_topic_that_differs(
    kafka: muster.Cluster, fresh: Callable[[str], str], partitions: int, config: dict[str, str], differences: str
) -> None:
    name = kafka.topic(fresh("topic"), partitions=3, config={"retention.ms": "86400000"})
    with pytest.raises(muster.TopicDiffers, match=f"topic {name} exists with {differences}"):
        kafka.topic(name, partitions=partitions, config=config)


@pytest.mark.parametrize(
    ("name", "config", "error"),
    [("a/b", {}, "INVALID_TOPIC_EXCEPTION"), ("valid", {"no.such.config": "1"}, "INVALID_CONFIG")],
)
def test_a_topic_that_cannot_be(kafka: muster.Cluster, name: str, config: dict[str, str], error: str) -> None:
    with pytest.raises(muster.Refused, match=f"topic {name} cannot be created: {error}"):
        kafka.topic(name, config=config)


def test_many_create_a_topic_at_once(kafka: muster.Cluster, fresh: Callable[[str], str]) -> None:
    """All but one find that it exists, perhaps before it has leaders."""
    name = fresh("topic")
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(kafka.topic, name, partitions=6, config={"retention.ms": "5"}) for _ in range(8)]
        assert {each.result(_WAIT_S) for each in calls} == {name}


def test_lag(cluster: muster.Cluster, fresh: Callable[[str], str]) -> None:
    topic, group = cluster.topic(fresh("topic"), partitions=3), fresh("group")
    produce(cluster, topic, 10, partition=0)
    produce(cluster, topic, 5, partition=1)
    commit(cluster, group, (topic, 0, 4), (topic, 1, 5))
    found = cluster.lag(group)
    assert (found.messages, found.behind) == (6, 1)
    behind, not_behind = found.partitions
    assert behind == muster.PartitionLag(topic, 0, 4, 10, 6, behind.seconds)
    assert not_behind == muster.PartitionLag(topic, 1, 5, 5, 0, 0.0)
    if cluster.http:
        assert found.seconds is not None
        assert 0 < found.seconds < _WAIT_S
    else:
        assert found.seconds is None
    commit(cluster, group, (topic, 0, 10))
    assert cluster.lag(group).seconds == 0
    assert cluster.lag(group).messages == cluster.lag(group).behind == 0


def test_lag_of_a_group_with_members_and_without_a_commit(cluster: muster.Cluster, fresh: Callable[[str], str]) -> None:
    topic, group = cluster.topic(fresh("topic")), fresh("group")
    produce(cluster, topic, 2)
    consumer = Consumer(cluster.client(group_id=group, auto_offset_reset="earliest", enable_auto_commit=False))
    consumer.subscribe([topic])
    assert len(consumer.consume(2, timeout=_WAIT_S)) == 2
    found = cluster.lag(group)
    consumer.close()
    assert (found.messages, found.behind) == (0, 0)
    assert [each.committed for each in found.partitions] == ([None] if cluster.http else [])


def test_lag_of_an_unknown_group(cluster: muster.Cluster) -> None:
    with pytest.raises(muster.UnknownGroup, match="there is no group nobody: a group exists once"):
        cluster.lag("nobody")


def test_lag_where_no_gateway_responds_over_http(kafka: muster.Cluster, fresh: Callable[[str], str]) -> None:
    topic, group = kafka.topic(fresh("topic")), fresh("group")
    produce(kafka, topic, 3)
    commit(kafka, group, (topic, 0, 1))
    unreachable = dataclasses.replace(kafka, http=("http://127.0.0.1:1", "http://127.0.0.1:2"))
    assert unreachable.lag(group).messages == 2
    partly = dataclasses.replace(kafka, http=("http://127.0.0.1:1", *kafka.http))
    assert partly.lag(group).seconds is not None


def test_partitions_of_a_topic_that_is_gone(kafka: muster.Cluster, fresh: Callable[[str], str]) -> None:
    """A Kafka may have offsets of it for a while."""
    topic = kafka.topic(fresh("topic"))
    with kafka.leaders("test") as leaders:
        assert [*existing(leaders, [(topic, 0), (topic, 9), ("never-created", 0)])] == [(topic, 0)]


def test_the_configuration_of_clients(kafka: muster.Cluster) -> None:
    def error_cb(_: object) -> None:
        pass

    found = kafka.client(group_id="g", error_cb=error_cb, **{"bootstrap.servers": "other:1", "linger.ms": 5})
    assert found == {"bootstrap.servers": "other:1", "group.id": "g", "error_cb": error_cb, "linger.ms": 5}
    assert kafka.client() == {"bootstrap.servers": kafka.bootstrap}


def secured(folder: Path) -> muster.Cluster:
    authority = Authority()
    issued = authority.issue("CN=client")
    file = folder / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.username=u\nsasl.password=secret\n"
        f"ssl.truststore.location={authority.write(folder / 'ca.pem')}\n"
        f"ssl.keystore.location={issued.write(folder / 'keys.pem')}\nssl.keystore.type=PEM\n"
    )
    return muster.Cluster("h:1", security=read_security(file))


def test_the_configuration_of_clients_with_login_and_tls(tmp_path: Path) -> None:
    found = secured(tmp_path).client()
    assert Producer(found) is not None  # librdkafka takes the certificates and the key
    begins = {name: value.split("\n")[0] for name, value in found.items()}
    assert begins == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "u",
        "sasl.password": "secret",
        "ssl.ca.pem": "-----BEGIN CERTIFICATE-----",
        "ssl.certificate.pem": "-----BEGIN CERTIFICATE-----",
        "ssl.key.pem": "-----BEGIN PRIVATE KEY-----",
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_a_cluster_pickles_with_login_and_tls_and_shows_neither(tmp_path: Path) -> None:
    cluster = secured(tmp_path)
    assert repr(cluster) == "Cluster('h:1')"
    copy = pickle.loads(pickle.dumps(cluster))
    assert copy.client() == cluster.client()
    assert copy.security.tls.context().check_hostname


def test_a_copy_neither_stops_it_nor_ends_it(kafka: muster.Cluster) -> None:
    copy = pickle.loads(pickle.dumps(kafka))
    assert copy == kafka
    with copy:
        pass
    with pytest.raises(muster.NotRunning, match="muster down"):
        copy.stop()
    assert kafka.topic("after-the-copy") == "after-the-copy"


@pytest.mark.parametrize(
    "error",
    [
        muster.NotStarted("why"),
        muster.NoResponse("broker", "refused", hint="; try again"),
        muster.MusterError("why"),
    ],
)
def test_errors_pickle(error: muster.MusterError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)

"""Kafka's responses about replicas, leaders and log directories, and its own tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.placement.view import Topic
from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools
from tests.conformance.fetching.test_fetch_sessions import new_topic
from tests.conformance.kafka import KafkaBroker
from tests.gateway.apis.replicas.replica_apis import Fresh, Make, ReplicaApis, leads
from tests.gateway.apis.test_data_apis import produce
from tests.gateway.serving import Client
from tests.log.support import client_batch
from tests.muster_process import Muster


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    with Muster(tmp_path_factory.mktemp("alone") / "storage", arguments=["--gateways", "1"]) as running:
        yield running


@pytest.fixture(params=["muster", "kafka"])
def server(request: pytest.FixtureRequest) -> str:
    """One broker."""
    if request.param == "muster":
        return str(request.getfixturevalue("alone").bootstrap)
    broker: KafkaBroker = request.getfixturevalue("broker")
    return broker.bootstrap_servers


@pytest.fixture
def client(server: str) -> Iterator[Client]:
    host, _, port = server.rpartition(":")
    with Client(int(port), host=host) as one:
        yield one


@pytest.fixture
def make(client: Client, server: str) -> Make:
    def make(name: str, partitions: int) -> Topic:
        return new_topic(client, server, name, partitions)

    return make


class TestReplicaApis(ReplicaApis):
    pass


def test_kafkas_own_tools(
    client: Client, make: Make, server: str, release: Kafka, fresh: Fresh, tmp_path: Path
) -> None:
    topic = make(fresh("tools"), 2)
    produce(client, (topic, 0, client_batch(3)), version=9)
    tools = Tools(release, server)
    dirs = json.loads(tools.run("LogDirsCommand", "--describe", "--topic-list", topic.name).splitlines()[-1])
    sizes = [
        (each["partition"], each["size"])
        for broker in dirs["brokers"]
        for folder in broker["logDirs"]
        for each in folder["partitions"]
    ]
    assert sorted(sizes) == [(f"{topic.name}-0", len(client_batch(3))), (f"{topic.name}-1", 0)]
    elected = tools.run(
        "LeaderElectionCommand", "--election-type", "preferred", "--topic", topic.name, "--partition", "0"
    )
    assert f"Valid replica already elected for partitions {topic.name}-0" in elected
    plan = {
        "version": 1,
        "partitions": [{"topic": topic.name, "partition": 0, "replicas": leads(client, topic.name)}],
    }
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    command = "reassign.ReassignPartitionsCommand"
    moved = tools.run(command, "--reassignment-json-file", str(file), "--execute")
    assert f"Successfully started partition reassignment for {topic.name}-0" in moved
    verified = tools.run(command, "--reassignment-json-file", str(file), "--verify")
    assert f"Reassignment of partition {topic.name}-0 is completed." in verified
    assert "No partition reassignments found." in tools.run(command, "--list")
    text = tools.run("TopicCommand", "--describe", "--topic", topic.name)
    assert text.count("LastKnownElr:") == 2


def test_a_topic_gets_more_replicas(muster: Muster, release: Kafka, fresh: Fresh, tmp_path: Path) -> None:
    """With two gateways; there is one Kafka here."""
    name = fresh("grown")
    tools = Tools(release, muster.bootstrap)
    tools.run("TopicCommand", "--create", "--topic", name, "--partitions", "2", "--replication-factor", "1")
    replicas = [[1, 2], [2, 1]]
    host, _, port = muster.bootstrap.split(",")[0].rpartition(":")
    with Client(int(port), host=host) as client:
        if leads(client, name) != [1]:
            replicas.reverse()
    partitions = [{"topic": name, "partition": index, "replicas": each} for index, each in enumerate(replicas)]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    plan = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(file))
    started = tools.run(*plan, "--execute", "--throttle", "1000000")
    assert f"Successfully started partition reassignments for {name}-0,{name}-1" in started
    verified = tools.run(*plan, "--verify")
    assert all(f"Reassignment of partition {name}-{index} is completed." in verified for index in range(2))
    assert "ReplicationFactor: 2" in tools.run("TopicCommand", "--describe", "--topic", name)

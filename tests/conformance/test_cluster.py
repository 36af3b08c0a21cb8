"""The quorum, features and registered brokers beside Apache Kafka, and Kafka's own tools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools
from tests.gateway.apis.cluster_apis import ClusterApis
from tests.gateway.serving import Client


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with Client(int(port), host=host) as one:
        yield one


class TestClusterApis(ClusterApis):
    pass


def test_kafkas_own_tools(bootstrap: str, release: Kafka) -> None:
    tools = Tools(release, bootstrap)
    status = dict(
        line.split(":", 1) for line in tools.run("MetadataQuorumCommand", "describe", "--status").splitlines()
    )
    assert (status["LeaderId"].strip(), status["MaxFollowerLag"].strip()) == ("1", "0")
    assert '{"id": 1, "endpoints": ["CONTROLLER://127.0.0.1:' in status["CurrentVoters"]
    (_, voter) = tools.run("MetadataQuorumCommand", "describe", "--replication").strip().splitlines()
    assert (voter.split()[0], voter.split()[3], voter.split()[-1]) == ("1", "0", "Leader")
    done = tools.run("FeatureCommand", "upgrade", "--feature", "transaction.version=2")
    assert done.strip() == "transaction.version was upgraded to 2."

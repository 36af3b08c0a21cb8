"""ACLs: requests, ``kafka-acls`` and an admin client, with an authorizer and without, on Muster and on Apache Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement.zookeeper.client import connect
from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools
from tests.conformance.kafka import KafkaBroker
from tests.gateway.acl_requests import VERSIONS, WITHOUT_AUTHORIZER, responses
from tests.gateway.authorization.acl_script import KAFKAS, transcript
from tests.gateway.serving import Client, serving

REQUEST_TIMEOUT_S = 30
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module", params=["muster", "kafka"])
def authorizing(
    request: pytest.FixtureRequest, release: Kafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yield the bootstrap address of a server with an authorizer: a gateway without Ray, and Apache Kafka."""
    if request.param == "kafka":
        with KafkaBroker(AUTHORIZER, release=release) as broker:
            yield broker.bootstrap_servers
        return
    with EmbeddedZooKeeper.start(tmp_path_factory.mktemp("zookeeper")) as zookeeper:
        zk = connect(zookeeper.hosts, timeout_s=10)
        with serving(zk, tmp_path_factory.mktemp("storage"), AUTHORIZER) as served:
            yield served.reachable()
        zk.shut()


def client_of(bootstrap: str) -> Client:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    return Client(int(port), host=host)


def test_requests_get_kafkas_responses(bootstrap: str) -> None:
    with client_of(bootstrap) as client:
        assert [responses(client, version) for version in VERSIONS] == [WITHOUT_AUTHORIZER for _ in VERSIONS]


def test_an_admin_client(bootstrap: str) -> None:
    """It finds none, and gets the reason why it can neither create nor delete any."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = (ResourceType.TOPIC, "flights", ResourcePatternType.LITERAL)
    anyone: Any = None  # its type leaves None out
    anything = AclBindingFilter(*topic, anyone, anyone, AclOperation.ANY, AclPermissionType.ANY)
    acl = AclBinding(*topic, "User:amelia", "*", AclOperation.READ, AclPermissionType.ALLOW)
    assert admin.describe_acls(anything).result(REQUEST_TIMEOUT_S) == []
    for change in (admin.create_acls([acl])[acl], admin.delete_acls([anything])[anything]):
        with pytest.raises(KafkaException) as refused:
            change.result(REQUEST_TIMEOUT_S)
        assert refused.value.args[0].code() == KafkaError.SECURITY_DISABLED


def test_requests_get_kafkas_responses_with_an_authorizer(authorizing: str) -> None:
    with client_of(authorizing) as client:
        assert transcript(client, REQUEST_TIMEOUT_S) == KAFKAS


def acls_in(printed: str) -> dict[str, set[str]]:
    """In the output of ``kafka-acls --list``: the ACLs of each resource pattern."""
    found: dict[str, set[str]] = {}
    pattern = ""
    for line in printed.splitlines():
        if head := re.match(r"Current ACLs for resource `ResourcePattern\((.*)\)`:", line.strip()):
            pattern = head[1]
            assert pattern not in found
            found[pattern] = set()
        elif entry := re.match(r"\((.*)\)", line.strip()):
            found[pattern].add(entry[1])
    return found


def test_kafka_acls(authorizing: str, release: Kafka) -> None:
    tools = Tools(release, authorizing)
    ann = ("--allow-principal", "User:ann")
    tools.run(
        "AclCommand", "--add", *ann, "--producer", "--topic", "tool-t", "--transactional-id", "tool-x", "--idempotent"
    )
    tools.run(
        "AclCommand",
        "--add",
        *ann,
        "--consumer",
        "--topic",
        "tool-",
        "--group",
        "*",
        "--resource-pattern-type",
        "prefixed",
    )
    everything = acls_in(tools.run("AclCommand", "--list"))

    def allowed(*operations: str) -> set[str]:
        return {f"principal=User:ann, host=*, operation={operation}, permissionType=ALLOW" for operation in operations}

    topic = "resourceType=TOPIC, name=tool-t, patternType=LITERAL"
    prefix = "resourceType=TOPIC, name=tool-, patternType=PREFIXED"
    assert everything == {
        topic: allowed("WRITE", "DESCRIBE", "CREATE"),
        prefix: allowed("READ", "DESCRIBE"),
        "resourceType=TRANSACTIONAL_ID, name=tool-x, patternType=LITERAL": allowed("WRITE", "DESCRIBE"),
        "resourceType=GROUP, name=*, patternType=PREFIXED": allowed("READ"),
        "resourceType=CLUSTER, name=kafka-cluster, patternType=LITERAL": allowed("IDEMPOTENT_WRITE"),
    }
    matching = ("--topic", "tool-t", "--resource-pattern-type", "match")
    removed = tools.run("AclCommand", "--remove", "--force", *matching)
    assert acls_in(removed) == {}
    left = acls_in(tools.run("AclCommand", "--list"))
    assert left == {pattern: acls for pattern, acls in everything.items() if pattern not in (topic, prefix)}

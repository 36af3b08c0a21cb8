"""``muster.data`` by SASL over TLS, for a user who has the rights that it needs and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from muster.gateway.client.cluster import Cluster
from muster.gateway.client.errors import LoginFailed
from muster.gateway.client.kafka.refusals import Refused
from muster.gateway.client.security import read_security
from muster.gateway.security.credentials import write
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from tests.certificates import Authority
from tests.data.driver import Driver, environment
from tests.data.test_batches import COUNT, PARTITIONS, copy_once, values_of
from tests.data.topics import fetched_bytes, produce
from tests.muster_process import Muster

pytestmark = pytest.mark.ring(name="ray")

USER, PASSWORD = "etl", "a password"
GROUP = "nightly"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """One gateway, with a listener for the tests and one for users who log in."""
    folder = tmp_path_factory.mktemp("secured")
    authority, users = Authority(), folder / "users.properties"
    authority.write(folder / "ca.pem")
    write(users, {USER: {each: ScramCredential.of_password(each, PASSWORD) for each in SCRAM_MECHANISMS}})
    properties = {
        "listeners": "PLAIN://127.0.0.1:0,SECURED://127.0.0.1:0",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SECURED:SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.credentials.file": str(users),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("CN=gateway").write(folder / "gateway.pem")),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "metrics.samples.flush.ms": "500",
    }
    with Muster(folder / "storage", arguments=["--gateways", "1"], properties=properties) as running:
        yield running


@pytest.fixture(scope="module")
def secured_driver(secured: Muster) -> Iterator[Driver]:
    with Driver(environment(secured), secured.storage.parent / "driver.log") as running:
        yield running


def as_user(secured: Muster, password: str = PASSWORD) -> Cluster:
    folder = secured.storage.parent
    file = folder / "client.properties"
    file.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.username={USER}\nsasl.password={password}\n"
        f"ssl.truststore.location={folder / 'ca.pem'}\nssl.truststore.type=PEM\n"
    )
    return Cluster(secured.ready["listeners"]["SECURED"][0], security=read_security(file))


def allow(secured: Muster, resource: ResourceType, name: str, operation: AclOperation) -> None:
    admin = AdminClient({"bootstrap.servers": secured.bootstrap})
    binding = AclBinding(
        resource, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, AclPermissionType.ALLOW
    )
    admin.create_acls([binding])[binding].result(60)


def test_the_rights_of_a_batch(secured: Muster, secured_driver: Driver, fresh: Callable[[str], str]) -> None:
    """The rights of docs/ray.md, and what is said without each."""
    source = secured.topic(fresh("in"), partitions=PARTITIONS)
    target = secured.topic(fresh("out"), partitions=PARTITIONS + 1)
    produce(secured.bootstrap, source, range(COUNT), PARTITIONS)
    kafka, transactional_id = as_user(secured), f"muster-data-{GROUP}"
    for resource, name, operation, refusal in (
        (ResourceType.GROUP, GROUP, AclOperation.READ, f"group {GROUP} cannot .*GROUP_AUTH"),
        (
            ResourceType.TRANSACTIONAL_ID,
            transactional_id,
            AclOperation.WRITE,
            f"transactional id {transactional_id} cannot .*TRANSACTIONAL_ID_AUTH",
        ),
        (ResourceType.TOPIC, source, AclOperation.READ, f"topic {source}: TOPIC_AUTH"),
        (ResourceType.TOPIC, target, AclOperation.WRITE, f"topic {target}: TOPIC_AUTH"),
    ):
        with pytest.raises(Refused, match=refusal):
            secured_driver.run(copy_once, kafka, source, target, GROUP)
        allow(secured, resource, name, operation)
    assert secured_driver.run(copy_once, kafka, source, target, GROUP) == COUNT
    assert values_of(secured.bootstrap, target) == [*range(COUNT)]
    assert fetched_bytes(secured, source).keys() == {f"{GROUP} same_connection"}


def test_a_wrong_password(secured: Muster, secured_driver: Driver) -> None:
    with pytest.raises(LoginFailed):
        secured_driver.run(copy_once, as_user(secured, "another"), "in", "out", GROUP)

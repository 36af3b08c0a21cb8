"""Requests about ACLs, Kafka's responses without an authorizer, and an admin client's view of these."""

from __future__ import annotations

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

from tests.gateway.acl_requests import VERSIONS, WITHOUT_AUTHORIZER, responses
from tests.gateway.serving import Client

REQUEST_TIMEOUT_S = 30


def test_requests_get_kafkas_responses(bootstrap: str) -> None:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with Client(int(port), host=host) as client:
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

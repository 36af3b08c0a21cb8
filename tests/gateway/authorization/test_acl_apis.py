"""DescribeAcls, CreateAcls and DeleteAcls on a real connection to a gateway with an authorizer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.security.acls import (
    Acl,
    AclOperation,
    AclPattern,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from tests.gateway.acl_requests import ACL, ACL_FILTER, CREATE, DELETE, DESCRIBE, VERSIONS
from tests.gateway.authorization.acl_script import KAFKAS, transcript
from tests.gateway.serving import Client, Serving

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
ROOT = {**AUTHORIZER, "super.users": "User:ANONYMOUS"}
"""Every client is a super user."""
OTHERS = {**AUTHORIZER, "super.users": "User:root"}
"""No client is."""
by_root = pytest.mark.parametrize("served", [ROOT], indirect=True)
by_others = pytest.mark.parametrize("served", [OTHERS], indirect=True)

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
ALL_ACLS = {**ACL_FILTER, "resource_type_filter": 1, "pattern_type_filter": ANY}
INVALID = ErrorCode.invalid_request
Row = tuple[int, str, int, str, str, int, int]


def creation(**changes: object) -> dict[str, Any]:
    return {**ACL, **changes}


def create(client: Client, *creations: Mapping[str, Any], version: int = 3) -> list[ErrorCode]:
    results = client.exchange(CREATE, version, {"creations": list(creations)}).results
    return [result.error_code for result in results]


def rows(client: Client, version: int = 3, **changes: object) -> list[Row]:
    described = client.exchange(DESCRIBE, version, {**ALL_ACLS, **changes})
    assert described.error_code is ErrorCode.none
    patterns = [(each.resource_type, each.resource_name, each.pattern_type) for each in described.resources]
    assert len(patterns) == len(set(patterns))
    return [
        (*pattern, acl.principal, acl.host, acl.operation, acl.permission_type)
        for pattern, resource in zip(patterns, described.resources, strict=True)
        for acl in resource.acls
    ]


def delete(client: Client, *filters: Mapping[str, Any], version: int = 3) -> list[tuple[ErrorCode, list[str]]]:
    results = client.exchange(DELETE, version, {"filters": list(filters)}).filter_results
    return [(each.error_code, [acl.resource_name for acl in each.matching_acls]) for each in results]


@by_root
@pytest.mark.parametrize("version", VERSIONS)
def test_acls_are_created_described_and_deleted(served: Serving, version: int) -> None:
    client = served.client
    assert create(client, creation(), creation(resource_pattern_type=PREFIXED), version=version) == [0, 0]
    assert create(client, creation(), version=version) == [0]
    amelia = ("User:amelia", "*", 3, 3)
    assert rows(client, version) == [(TOPIC, "flights", LITERAL, *amelia), (TOPIC, "flights", PREFIXED, *amelia)]
    prefixes = {**ALL_ACLS, "pattern_type_filter": PREFIXED}
    nothing = {**ALL_ACLS, "principal_filter": "User:b"}
    assert delete(client, prefixes, nothing, version=version) == [(0, ["flights"]), (0, [])]
    assert rows(client, version) == [(TOPIC, "flights", LITERAL, *amelia)]


@by_root
def test_what_cannot_be_created(served: Serving) -> None:
    bad: list[dict[str, Any]] = [
        *({"resource_type": number} for number in (0, 1, 8, -1)),
        *({"resource_pattern_type": number} for number in (0, 1, 2, 5)),
        *({"operation": number} for number in (0, 1, 16)),
        *({"permission_type": number} for number in (0, 1, 4)),
        *({"resource_name": name} for name in ("", "a/b", "..", "a\0")),
        {"resource_type": CLUSTER, "resource_name": "flights"},
        *({"principal": text} for text in ("", "amelia")),
        {"host": ""},
    ]
    creations = [creation(principal="User:first"), *(creation(**each) for each in bad), creation(principal="User:last")]
    assert create(served.client, *creations) == [0, *(INVALID for _ in bad), 0]
    assert [principal for *_, principal, _, _, _ in rows(served.client)] == ["User:first", "User:last"]
    results = served.exchange(CREATE, 3, {"creations": [creation(**each) for each in bad]}).results
    assert all(result.error_message for result in results)


@by_root
def test_what_means_nothing_is_stored_as_by_a_broker(served: Serving) -> None:
    odd = creation(operation=AclOperation.CLUSTER_ACTION, principal="CN=x:", host="not an address")
    assert create(served.client, odd, creation(resource_type=7, resource_name="User:a", operation=13)) == [0, 0]
    assert len(rows(served.client)) == 2


@by_root
def test_filters(served: Serving) -> None:
    names = [("pay-x", LITERAL), ("pay-", LITERAL), ("*", LITERAL), ("pay-", PREFIXED)]
    creations = [creation(resource_name=name, resource_pattern_type=style) for name, style in names]
    create(served.client, *creations, creation(resource_type=GROUP, resource_name="pay-x"))

    def named(style: int, name: str | None) -> set[tuple[str, int]]:
        found = rows(served.client, resource_type_filter=2, pattern_type_filter=style, resource_name_filter=name)
        return {(row[1], row[2]) for row in found}

    assert named(MATCH, "pay-x") == {("pay-x", LITERAL), ("*", LITERAL), ("pay-", PREFIXED)}
    assert named(LITERAL, "*") == {("*", LITERAL)}
    assert named(ANY, "pay-") == {("pay-", LITERAL), ("pay-", PREFIXED)}
    assert named(ANY, None) == set(names)
    assert len(rows(served.client)) == 5


@by_root
def test_an_acl_that_two_filters_match_is_under_the_first(served: Serving) -> None:
    create(served.client, creation(), creation(resource_name="b"))
    unknown = {**ALL_ACLS, "operation": 99}
    by_name = {**ALL_ACLS, "resource_name_filter": "b"}
    assert delete(served.client, by_name, unknown, ALL_ACLS) == [(0, ["b"]), (INVALID, []), (0, ["flights"])]
    assert rows(served.client) == []


@by_root
@pytest.mark.parametrize("field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"])
def test_unknown_numbers_in_a_filter(served: Serving, field: str) -> None:
    for number in (0, 77, -1):
        described = served.exchange(DESCRIBE, 3, {**ALL_ACLS, field: number})
        assert (described.error_code, described.resources) == (INVALID, ())
        assert described.error_message


@by_others
def test_who_may_not(served: Serving) -> None:
    denied = ErrorCode.cluster_authorization_failed
    described = served.exchange(DESCRIBE, 3, ALL_ACLS)
    assert (described.error_code, described.resources) == (denied, ())
    assert create(served.client, creation(), creation(operation=99)) == [denied, denied]
    assert delete(served.client, ALL_ACLS, ALL_ACLS) == [(denied, []), (denied, [])]


@by_others
def test_an_acl_is_in_force_when_it_is_answered(served: Serving, caplog: pytest.LogCaptureFixture) -> None:
    """ALTER implies DESCRIBE; what was denied is logged once, and counted."""
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    alter = creation(
        resource_type=CLUSTER, resource_name="kafka-cluster", principal="User:ANONYMOUS", operation=AclOperation.ALTER
    )
    for _ in range(3):
        assert create(served.client, alter) == [ErrorCode.cluster_authorization_failed]
    served.run(served.controller.create_acls([_acl(alter)]))
    assert served.run(served.gateway.until_view(lambda view: len(view.configs.acls) == 1, 10))
    assert len(rows(served.client)) == 1
    own = {**ALL_ACLS, "resource_type_filter": CLUSTER}
    assert delete(served.client, own) == [(0, ["kafka-cluster"])]
    assert delete(served.client, own) == [(ErrorCode.cluster_authorization_failed, [])]
    denied = [record.getMessage() for record in caplog.records if record.name == "kafka.authorizer.logger"]
    assert denied == [
        "Principal = User:ANONYMOUS is Denied operation = ALTER from host = 127.0.0.1 on resource = "
        "Cluster:LITERAL:kafka-cluster for request = CreateAcls with resourceRefCount = 1"
    ]
    metrics = served.http("/metrics")[1]
    assert 'muster_authorizations_total{gateway="1",result="denied"} 4' in metrics
    assert 'muster_authorizations_total{gateway="1",result="allowed"} 2' in metrics
    assert 'muster_acls{gateway="1"} 0' in metrics


def _acl(fields: Mapping[str, Any]) -> Acl:
    pattern = AclPattern(
        AclResourceType(fields["resource_type"]),
        fields["resource_name"],
        AclPatternType(fields["resource_pattern_type"]),
    )
    operation, permission = AclOperation(fields["operation"]), AclPermission(fields["permission_type"])
    return Acl(pattern, fields["principal"], fields["host"], operation, permission)


@by_root
def test_the_controller_is_away(served: Serving) -> None:
    served.controller.away = True
    late = ErrorCode.request_timed_out
    assert create(served.client, creation(), creation(operation=99)) == [late, INVALID]
    assert delete(served.client, ALL_ACLS, {**ALL_ACLS, "operation": 99}) == [(late, []), (INVALID, [])]
    assert rows(served.client) == []


@by_root
def test_many_at_once(served: Serving) -> None:
    """And several clients at the same time."""
    clients = [served.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        creations = [creation(principal=f"User:{number}-{each}") for each in range(100)]
        client.request(CREATE, 3, {"creations": creations})
    for client in clients:
        results = client.response(CREATE, 3).results
        assert [result.error_code for result in results] == [0] * 100
        client.close()
    assert len(rows(served.client)) == 300


@by_root
def test_requests_get_kafkas_responses(served: Serving) -> None:
    assert transcript(served.client) == KAFKAS

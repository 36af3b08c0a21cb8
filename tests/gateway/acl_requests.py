"""ACL requests, and Kafka's responses without an authorizer; tests/conformance/test_acls.py compares with Kafka."""

from __future__ import annotations

from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.serving import Client

DESCRIBE, CREATE, DELETE = 29, 30, 31
VERSIONS = range(1, 4)

_TOPIC, _LITERAL, _ANY, _READ, _ALLOW = 2, 3, 1, 3, 3
ACL = {
    "resource_type": _TOPIC,
    "resource_name": "flights",
    "resource_pattern_type": _LITERAL,
    "principal": "User:amelia",
    "host": "*",
    "operation": _READ,
    "permission_type": _ALLOW,
}
ACL_FILTER = {
    "resource_type_filter": _TOPIC,
    "resource_name_filter": None,
    "pattern_type_filter": _LITERAL,
    "principal_filter": None,
    "host_filter": None,
    "operation": _ANY,
    "permission_type": _ANY,
}

Result = tuple[ErrorCode, str | None]


def responses(client: Client, version: int) -> list[list[Result]]:
    """Responses to a description, to two creations, to two deletions."""
    described = client.exchange(DESCRIBE, version, ACL_FILTER)
    assert described.resources == ()
    created = client.exchange(CREATE, version, {"creations": [ACL, {**ACL, "operation": _ANY}]})
    deleted = client.exchange(DELETE, version, {"filters": [ACL_FILTER, {**ACL_FILTER, "principal_filter": "nobody"}]})
    assert [each.matching_acls for each in deleted.filter_results] == [(), ()]
    return [
        [(each.error_code, each.error_message) for each in results]
        for results in ([described], created.results, deleted.filter_results)
    ]


_REFUSED = (ErrorCode.security_disabled, "No Authorizer is configured.")
WITHOUT_AUTHORIZER = [
    [(ErrorCode.security_disabled, "No Authorizer is configured on the broker")],
    [_REFUSED, _REFUSED],
    [_REFUSED, _REFUSED],
]

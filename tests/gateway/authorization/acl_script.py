"""Requests about ACLs, in order, and Kafka's responses; tests/conformance/test_acls.py compares with Kafka.

Without those that Muster answers otherwise, on purpose: unknown numbers, for which Kafka closes the connection; ANY in
a creation, for which Kafka fails all creations with UNKNOWN_SERVER_ERROR; names with ``/`` and empty hosts, which Kafka
accepts; one ACL under two filters of a DeleteAcls, which Kafka lists twice.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.gateway.acl_requests import ACL, ACL_FILTER, CREATE, DELETE, DESCRIBE
from tests.gateway.serving import Client

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER = 2, 3, 4
ALL_ACLS = {**ACL_FILTER, "resource_type_filter": 1, "pattern_type_filter": ANY}
OWN = {"principal": "User:script"}


def _creation(**changes: Any) -> dict[str, Any]:
    return {**ACL, **OWN, **changes}


def _filter(**changes: Any) -> dict[str, Any]:
    return {**ALL_ACLS, "principal_filter": "User:script", **changes}


def _named(style: int, name: str | None) -> dict[str, Any]:
    return _filter(resource_type_filter=TOPIC, pattern_type_filter=style, resource_name_filter=name)


SCRIPT: tuple[tuple[int, list[dict[str, Any]]], ...] = (
    (CREATE, [_creation(), _creation(resource_name=""), _creation()]),
    (CREATE, [_creation(principal="script"), _creation(host="10.0.0.1"), _creation(principal="")]),
    (CREATE, [_creation(resource_type=CLUSTER), _creation(resource_type=CLUSTER, resource_name="kafka-cluster")]),
    (
        CREATE,
        [_creation(operation=9, permission_type=2), _creation(resource_type=7, resource_name="User:a", operation=13)],
    ),
    (CREATE, [_creation(resource_name=name) for name in ("pay-x", "pay-", "*", "é %")]),
    (CREATE, [_creation(resource_name=name, resource_pattern_type=PREFIXED) for name in ("pay-", "*", "pay-xx")]),
    *((DESCRIBE, [_named(style, "pay-x")]) for style in (ANY, MATCH, LITERAL, PREFIXED)),
    *((DESCRIBE, [_named(style, "*")]) for style in (ANY, MATCH, LITERAL, PREFIXED)),
    *((DESCRIBE, [_named(style, None)]) for style in (ANY, MATCH, LITERAL, PREFIXED)),
    (DESCRIBE, [_filter(operation=9)]),
    (DESCRIBE, [_filter(operation=2)]),
    (DESCRIBE, [_filter(permission_type=2)]),
    (DESCRIBE, [_filter(host_filter="10.0.0.1")]),
    (DESCRIBE, [_filter(principal_filter="User:*")]),
    (DESCRIBE, [_filter(principal_filter="user:script")]),
    (DELETE, [_filter(resource_type_filter=GROUP), _named(PREFIXED, None), _named(LITERAL, "flights")]),
    (DELETE, [_named(MATCH, "pay-x"), _filter(resource_type_filter=CLUSTER)]),
    (DESCRIBE, [_filter()]),
    (DELETE, [_filter()]),
    (DESCRIBE, [_filter()]),
)


KAFKAS: list[Any] = json.loads((Path(__file__).parent / "kafka_responses.json").read_text())
"""The transcript of Kafka 4.3."""


def transcript(client: Client, within_s: float = 0.0) -> list[Any]:
    """Return the responses, without what depends on the order in which a server keeps ACLs.

    ``within_s``: how long a change may take until it is described. A Kafka broker learns of it after the controller.
    """
    found = []
    for (api, requests), expected in zip(SCRIPT, KAFKAS, strict=True):
        deadline = time.monotonic() + within_s
        while (response := _plain(_response(client, api, requests))) != expected and api == DESCRIBE:
            if time.monotonic() >= deadline:
                break
        found.append(response)
    return found


def _plain(response: Any) -> Any:
    return json.loads(json.dumps(response))


def _response(client: Client, api: int, requests: list[dict[str, Any]]) -> Any:
    if api == DESCRIBE:
        described = client.exchange(api, 3, requests[0])
        rows = [_row(resource, acl) for resource in described.resources for acl in resource.acls]
        return int(described.error_code), described.error_message, sorted(rows)
    if api == CREATE:
        results = client.exchange(api, 3, {"creations": requests}).results
        return [(int(result.error_code), result.error_message) for result in results]
    results = client.exchange(api, 3, {"filters": requests}).filter_results
    return [
        (
            int(result.error_code),
            result.error_message,
            sorted((int(acl.error_code), acl.error_message, *_row(acl, acl)) for acl in result.matching_acls),
        )
        for result in results
    ]


def _row(resource: Any, acl: Any) -> tuple[int, str, int, str, str, int, int]:
    return (
        resource.resource_type,
        resource.resource_name,
        resource.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )

"""Every API is guarded, in every version: a client without rights gets refusals, whatever it names."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.api import APIS
from muster.placement.view import Topic
from tests.gateway.authorization.world import REFUSALS, UNKNOWN_ID
from tests.gateway.faults.test_fault_responses import EVERY, body_of, errors_in
from tests.gateway.serving import Serving

PROPERTIES = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:root"}
UNGUARDED = {
    "SaslHandshake",
    "ApiVersions",
    "SaslAuthenticate",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
}
"""Kafka lets every client use these."""
OPEN_TO_ALL = UNGUARDED | {"DescribeCluster"}
"""Brokers are no secret: a client that finds none cannot do anything."""
LISTS = {"ListGroups", "ListTransactions"}
"""APIs that leave out what may not be seen."""
WITHOUT_ERRORS = {("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}
"""Their response has no place for this one."""
MALFORMED = {("Metadata", 10), ("Metadata", 11)}
"""Only in later versions may a request have ids."""
MISSING = Topic(name="missing", topic_id=UNKNOWN_ID, partitions=1)


EACH: list[Any] = EVERY
NAMED = [(APIS[each.values[0]].name, each) for each in EACH]


def test_what_has_no_guard() -> None:
    assert {api.name for api in APIS.values() if not api.guard.rules} == UNGUARDED


@pytest.fixture(scope="module")
def topic(full: Serving) -> Topic:
    return full.create("guarded", 2)


def in_all_versions(*excepted: str) -> list[Any]:
    return [each for name, each in NAMED if name not in excepted and (name, each.values[1]) not in MALFORMED]


@pytest.mark.parametrize(("api_key", "version"), in_all_versions(*OPEN_TO_ALL, *LISTS))
def test_a_client_without_rights_is_refused(full: Serving, topic: Topic, api_key: int, version: int) -> None:
    """And does not learn what exists, but for an id that no topic has, which is no secret (KIP-516)."""
    with full.connect() as client:
        there, missing = (client.exchange(api_key, version, body_of(api_key, each, "g")) for each in (topic, MISSING))
    assert {error for _, error in errors_in(there)} - {ErrorCode.none} <= REFUSALS
    assert any(error in REFUSALS for _, error in errors_in(there)) or (APIS[api_key].name, version) in WITHOUT_ERRORS
    if not any(error is ErrorCode.unknown_topic_id for _, error in errors_in(missing)):
        ids = (str(topic.topic_id), str(UNKNOWN_ID))
        assert repr(there).replace(topic.name, "T").replace(ids[0], "#") == repr(missing).replace(
            MISSING.name, "T"
        ).replace(ids[1], "#")


@pytest.mark.parametrize(("api_key", "version"), [each for name, each in NAMED if name in LISTS])
def test_nothing_is_listed(full: Serving, api_key: int, version: int) -> None:
    response = full.exchange(api_key, version, body_of(api_key, MISSING, "g"))
    assert response == dataclasses.replace(response, **{_array(response): ()})


def _array(response: Any) -> str:
    return "groups" if hasattr(response, "groups") else "transaction_states"

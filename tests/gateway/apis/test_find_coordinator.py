"""FindCoordinator: kinds of coordinators, errors and Kafka's messages for them, in every version."""

from __future__ import annotations

import pytest

from muster.actors.wire.kafka.codec import ErrorCode, field, versions_of
from muster.placement.view import TRANSACTIONS_TOPIC
from tests.gateway.group_client import FIND_COORDINATOR, Fresh, find
from tests.gateway.serving import Serving

NONE, INVALID = ErrorCode.none, ErrorCode.invalid_request
GROUP, TRANSACTION, SHARE, UNKNOWN = 0, 1, 2, 9


def find_one(full: Serving, version: int, key: str, key_type: int) -> tuple[ErrorCode, str | None, int, str, int]:
    """Error, message, node, host and port."""
    response = full.exchange(FIND_COORDINATOR, version, {"key_type": key_type, "key": key, "coordinator_keys": [key]})
    found = response.coordinators[0] if version >= 4 else response
    return found.error_code, field(found, "error_message", ""), found.node_id, found.host, found.port


@pytest.mark.parametrize("version", versions_of(FIND_COORDINATOR))
def test_the_coordinator_of_a_group(full: Serving, fresh: Fresh, version: int) -> None:
    message = "NONE" if 1 <= version <= 3 else ""
    assert find_one(full, version, fresh("g"), GROUP) == (NONE, message, 1, "one.test", 9092)
    assert find_one(full, version, "", GROUP) == (NONE, message, 1, "one.test", 9092)


@pytest.mark.parametrize("version", range(1, 7))
def test_the_coordinator_of_transactions(full: Serving, fresh: Fresh, version: int) -> None:
    """The first one creates the topic."""
    message = "NONE" if version <= 3 else ""
    assert find_one(full, version, fresh("t"), TRANSACTION) == (NONE, message, 1, "one.test", 9092)
    assert full.gateway.view.topics[TRANSACTIONS_TOPIC].internal
    assert find_one(full, version, "", TRANSACTION) == (NONE, message, 1, "one.test", 9092)


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize("key_type", [SHARE, UNKNOWN, -1])
def test_other_coordinators_are_refused(full: Serving, version: int, key_type: int) -> None:
    error, message, *where = find_one(full, version, "k", key_type)
    assert (error, where) == (INVALID, [-1, "", -1])
    assert bool(message) == (version < 4 or key_type != SHARE)


@pytest.mark.parametrize("version", range(4, 7))
def test_keys_are_returned_in_their_order_each_as_often_as_requested(full: Serving, fresh: Fresh, version: int) -> None:
    group, other = fresh("g"), fresh("g")
    assert find(full.client, version, other, group, other) == [(other, 1, NONE), (group, 1, NONE), (other, 1, NONE)]
    assert find(full.client, version) == []
    shares = ["g", "g:AAAAAAAAAAAAAAAAAAAAAQ:0", ""]
    assert find(full.client, version, *shares, key_type=SHARE) == [(key, -1, INVALID) for key in shares]
    assert find(full.client, version, key_type=UNKNOWN) == []


@pytest.mark.parametrize("version", versions_of(FIND_COORDINATOR))
def test_a_coordinator_without_a_broker_to_name(full: Serving, fresh: Fresh, version: int) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    full.without_brokers()
    try:
        message = "The coordinator is not available." if 1 <= version <= 3 else ""
        assert find_one(full, version, group, GROUP) == (ErrorCode.coordinator_not_available, message, -1, "", -1)
    finally:
        full.follow(full.controller.view())

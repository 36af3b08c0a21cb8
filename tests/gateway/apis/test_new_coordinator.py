"""A gateway that has not connected to a coordinator yet, or to its standby.

FindCoordinator starts an actor, and may return another gateway than the one that was asked. librdkafka's admin client
repeats neither ListGroups nor OffsetCommit after COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import OFFSETS, TRANSACTIONS
from tests.gateway.group_client import LIST_GROUPS, Fresh, Member, find
from tests.gateway.serving import Serving

_BEFORE_S = 0.3
INIT_PRODUCER_ID = 22
_FILTERS: dict[str, list[str]] = {"states_filter": [], "types_filter": []}


@contextmanager
def not_connected(full: Serving, partition: int) -> Iterator[None]:
    """Put the actor into the view at an address where nothing listens yet."""
    controller = full.controller
    endpoint = controller.offsets[partition]
    assert endpoint is not None
    controller.offsets[partition] = replace(endpoint, path="/nowhere", port=1)
    full.follow(controller.view())
    try:
        yield
    finally:
        controller.offsets[partition] = endpoint
        full.follow(controller.view())


def test_a_commit_starts_the_coordinator_and_waits_for_it(full: Serving, fresh: Fresh) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    while full.gateway.partition_of(group) in full.controller.offsets:
        group = fresh("g")
    assert Member(full.client, group).commit((topic, 0, 7)) == [(topic.topic_id, 0, ErrorCode.none)]


def test_requests_wait_until_a_new_coordinator_is_connected(full: Serving, fresh: Fresh) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    find(full.client, 4, group)
    Member(full.client, group).commit((topic, 0, 7))
    with full.connect() as lists, full.connect() as joins:
        member = Member(joins, group)
        with not_connected(full, full.gateway.partition_of(group)):
            lists.request(LIST_GROUPS, 5, _FILTERS)
            member.request_join()
            assert lists.has_nothing_for(_BEFORE_S)
            assert joins.has_nothing_for(_BEFORE_S)
        listed = lists.response(LIST_GROUPS, 5)
        assert listed.error_code is ErrorCode.none
        assert group in {found.group_id for found in listed.groups}
        assert member.joined().error_code is ErrorCode.member_id_required


@contextmanager
def failing_over(full: Serving, kind: str, partition: int) -> Iterator[None]:
    """Lose the actor, whose standby does not serve yet."""
    endpoints = full.controller.offsets if kind == OFFSETS else full.controller.transactions
    endpoint, endpoints[partition] = endpoints[partition], None
    full.follow(full.controller.view())
    try:
        yield
    finally:
        endpoints[partition] = endpoint
        full.follow(full.controller.view())


def test_requests_wait_for_the_standby_of_a_group(full: Serving, fresh: Fresh) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    find(full.client, 4, group)
    Member(full.client, group).commit((topic, 0, 7))
    with full.connect() as joins:
        member = Member(joins, group)
        with failing_over(full, OFFSETS, full.gateway.partition_of(group)):
            member.request_join()
            assert joins.has_nothing_for(_BEFORE_S)
        assert member.joined().error_code is ErrorCode.member_id_required


def test_requests_wait_for_the_standby_of_a_producer(full: Serving, fresh: Fresh) -> None:
    name = fresh("txn")
    body = {"transactional_id": name, "transaction_timeout": 60_000}
    producer_id = full.exchange(INIT_PRODUCER_ID, 4, body).producer_id
    with failing_over(full, TRANSACTIONS, full.gateway.transactions_partition_of(name)):
        full.client.request(INIT_PRODUCER_ID, 4, body)
        assert full.client.has_nothing_for(_BEFORE_S)
    response = full.client.response(INIT_PRODUCER_ID, 4)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (ErrorCode.none, producer_id, 1)

"""The APIs of transactional producers through a gateway: what it decides itself, and what the coordinator does."""

from __future__ import annotations

from typing import Any

import pytest

from muster.actors.wire.kafka.codec import ErrorCode, versions_of
from muster.placement.view import TRANSACTIONS_TOPIC
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Serving

INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, DESCRIBE, LIST = 22, 24, 25, 26, 65, 66
NONE, LOADING = ErrorCode.none, ErrorCode.coordinator_load_in_progress
TIMEOUT_MS = 60_000


def init(full: Serving, transactional_id: str | None, *, version: int = 4, **fields: Any) -> tuple[ErrorCode, int, int]:
    """Send InitProducerId again, like clients, while the coordinator starts."""
    body = {"transactional_id": transactional_id, "transaction_timeout": TIMEOUT_MS, **fields}
    while (response := full.exchange(INIT_PRODUCER_ID, version, body)).error_code == LOADING:
        pass
    return response.error_code, response.producer_id, response.producer_epoch


def add(
    full: Serving, producer: tuple[str, int, int], *partitions: tuple[str, int], version: int = 3
) -> dict[tuple[str, int], ErrorCode]:
    transactional_id, producer_id, epoch = producer
    topics = [{"name": name, "partitions": [index]} for name, index in partitions]
    body = {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer_id,
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": topics,
    }
    response = full.exchange(ADD_PARTITIONS, version, body)
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }


def end(full: Serving, producer: tuple[str, int, int], *, committed: bool, version: int = 3) -> ErrorCode:
    transactional_id, producer_id, epoch = producer
    body = {
        "transactional_id": transactional_id,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "committed": committed,
    }
    error: ErrorCode = full.exchange(END_TXN, version, body).error_code
    return error


@pytest.mark.parametrize("version", versions_of(INIT_PRODUCER_ID))
def test_a_producer_gets_an_id_and_then_higher_epochs(full: Serving, fresh: Fresh, version: int) -> None:
    name = fresh("txn")
    error, producer_id, epoch = init(full, name, version=version)
    assert (error, epoch) == (NONE, 0)
    assert [init(full, name, version=version) for _ in range(2)] == [(NONE, producer_id, 1), (NONE, producer_id, 2)]


def test_producer_ids_are_of_one_producer_each(full: Serving, fresh: Fresh) -> None:
    found = [init(full, name)[1] for name in [fresh("txn") for _ in range(20)] + [None] * 20]
    assert len(set(found)) == 40


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_that_is_not_allowed(full: Serving, fresh: Fresh, timeout_ms: int) -> None:
    assert init(full, fresh("txn"), transaction_timeout=timeout_ms)[0] is ErrorCode.invalid_transaction_timeout


@pytest.mark.parametrize("name", ["", None, "txn"])
def test_only_one_of_id_and_epoch(full: Serving, name: str | None) -> None:
    assert init(full, name, producer_id=7)[0] is ErrorCode.invalid_request


@pytest.mark.parametrize("version", range(4))
def test_partitions_that_cannot_be_added(full: Serving, fresh: Fresh, version: int) -> None:
    """None is added then."""
    topic, unknown, name = full.create(fresh("topic")).name, fresh("no topic"), fresh("txn")
    producer = (name, *init(full, name)[1:])
    assert add(full, producer, (topic, 0), (unknown, 0), (topic, 1), (TRANSACTIONS_TOPIC, 0), version=version) == {
        (topic, 0): ErrorCode.operation_not_attempted,
        (topic, 1): ErrorCode.unknown_topic_or_partition,
        (unknown, 0): ErrorCode.unknown_topic_or_partition,
        (TRANSACTIONS_TOPIC, 0): ErrorCode.topic_authorization_failed,
    }
    assert described(full, name)[name] == (NONE, "Empty", {})
    assert add(full, producer, (topic, 0), version=version) == {(topic, 0): NONE}
    assert described(full, name)[name] == (NONE, "Ongoing", {topic: (0,)})


@pytest.mark.parametrize("version", range(4))
def test_a_fenced_producer_adds_nothing(full: Serving, fresh: Fresh, version: int) -> None:
    topic, name = full.create(fresh("topic")).name, fresh("txn")
    producer = (name, *init(full, name)[1:])
    init(full, name)
    fenced = ErrorCode.invalid_producer_epoch if version < 2 else ErrorCode.producer_fenced
    assert add(full, producer, (topic, 0), version=version) == {(topic, 0): fenced}
    assert end(full, producer, committed=True, version=version) is fenced


Described = tuple[ErrorCode, str, dict[str, tuple[int, ...]]]
"""Error, state and partitions of a transaction."""


def described(full: Serving, *names: str) -> dict[str, Described]:
    """Error, state and partitions of these transactions, by id."""
    response = full.client.exchange(DESCRIBE, 0, {"transactional_ids": list(names)})
    return {
        each.transactional_id: (
            each.error_code,
            each.transaction_state,
            {topic.topic: tuple(topic.partitions) for topic in each.topics},
        )
        for each in response.transaction_states
    }


def test_transactions_of_several_coordinators_are_described_together(full: Serving, fresh: Fresh) -> None:
    names = [fresh("txn") for _ in range(12)]
    for name in names:
        init(full, name)
    assert len({full.gateway.transactions_partition_of(name) for name in names}) > 1
    unknown = fresh("txn")
    found = described(full, *names, unknown, "")
    assert list(found) == [*names, unknown, ""]
    assert all(found[name] == (NONE, "Empty", {}) for name in names)
    assert found[unknown][0] is ErrorCode.transactional_id_not_found
    assert found[""][0] is ErrorCode.invalid_request


@pytest.mark.parametrize("version", versions_of(LIST))
def test_transactions_are_listed_by_their_states(full: Serving, fresh: Fresh, version: int) -> None:
    topic, idle, ongoing = full.create(fresh("topic")).name, fresh("txn"), fresh("txn")
    init(full, idle)
    add(full, (ongoing, *init(full, ongoing)[1:]), (topic, 0))
    response = full.exchange(LIST, version, {"state_filters": ["Ongoing", "Bogus"], "producer_id_filters": []})
    assert (response.error_code, response.unknown_state_filters) == (NONE, ("Bogus",))
    found = {each.transactional_id: each.transaction_state for each in response.transaction_states}
    assert found[ongoing] == "Ongoing"
    assert idle not in found
    assert set(found.values()) == {"Ongoing"}


def test_a_pattern_that_is_none(full: Serving) -> None:
    body = {"state_filters": [], "producer_id_filters": [], "transactional_id_pattern": "("}
    assert full.exchange(LIST, 2, body).error_code is ErrorCode.invalid_regular_expression

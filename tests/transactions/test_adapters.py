"""Every version of the APIs, from a frame to a request and from a response to a frame."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.transactions.codec import adapters
from muster.actors.transactions.messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxn,
    DescribedTopic,
    DescribedTransaction,
    DescribeTransactionsResponse,
    EndTxnResponse,
    InitProducerId,
    InitProducerIdResponse,
    ListedTransaction,
    ListTransactions,
    ListTransactionsResponse,
    failed,
)
from muster.actors.transactions.types import TransactionalId
from muster.actors.wire.kafka import codec
from tests.transactions.driver import T0, T1, U0, X, add, add_offsets, end

E = ErrorCode
TOPICS = [{"name": "t", "partitions": [0, 1]}, {"name": "u", "partitions": [0]}]
ONE = {"transactional_id": "x", "producer_id": 7, "producer_epoch": 3}
BODIES: dict[int, dict[str, Any]] = {
    22: {
        **ONE, "transaction_timeout": 60_000, "enable2_pc": True, "keep_prepared_txn": True,
    },
    24: {
        "transactions": [{**ONE, "verify_only": True, "topics": TOPICS}],
        "v3_and_below_transactional_id": "x",
        "v3_and_below_producer_id": 7,
        "v3_and_below_producer_epoch": 3,
        "v3_and_below_topics": TOPICS,
    },
    25: {**ONE, "group_id": "g"},
    26: {**ONE, "committed": True},
    65: {"transactional_ids": ["x", "y"]},
    66: {
        "state_filters": ["Ongoing"], "producer_id_filters": [7], "duration_filter": 5,
        "transactional_id_pattern": "x.*",
    },
}  # fmt: skip
VERSIONS = [(api_key, version) for api_key in BODIES for version in codec.versions_of(api_key)]


def request_of(api_key: int, version: int) -> Any:
    frame = codec.encode_request(api_key, version, 1, "c", BODIES[api_key])
    header = codec.decode_header(frame)
    return adapters.read(header, frame)


def response_of(api_key: int, version: int, response: Any) -> Any:
    header = codec.Header(api_key, version, 1, "c", 0)
    return codec.decode_response(api_key, version, adapters.write(header, response))[1]


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_a_request_of_every_version(api_key: int, version: int) -> None:
    request = request_of(api_key, version)
    match request:
        case InitProducerId():
            assert (request.transactional_id, request.transaction_timeout_ms) == ("x", 60_000)
            assert (request.producer_id, request.producer_epoch) == ((7, 3) if version >= 3 else (-1, -1))
            assert (request.enable_2pc, request.keep_prepared_txn) == ((version >= 6,) * 2)
        case AddPartitionsToTxn():
            (transaction,) = request.transactions
            assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("x", 7, 3)
            assert transaction.partitions == (T0, T1, U0)
            assert transaction.verify_only is (version >= 4)
        case ListTransactions():
            assert (request.state_filters, request.producer_id_filters) == (("Ongoing",), (7,))
            assert request.duration_filter_ms == (5 if version >= 1 else -1)
            assert request.transactional_id_pattern == ("x.*" if version >= 2 else None)
    if api_key == adapters.END_TXN:
        assert request == end((7, 3), version=version)
    if api_key == adapters.ADD_OFFSETS_TO_TXN:
        assert (request.group_id, request.api_version) == (add_offsets((7, 3)).group_id, version)
    if api_key == adapters.DESCRIBE_TRANSACTIONS:
        assert request.transactional_ids == ("x", "y")
    assert request.api_version == version


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_a_failure_of_every_version(api_key: int, version: int) -> None:
    entity = response_of(api_key, version, failed(request_of(api_key, version), E.not_coordinator))
    assert "NOT_COORDINATOR" in repr(entity).upper()


@pytest.mark.parametrize(
    ("api_key", "since"), [(22, 4), (24, 2), (25, 2), (26, 2)]
)  # fmt: skip
def test_a_fenced_producer_of_every_version(api_key: int, since: int) -> None:
    for version in codec.versions_of(api_key):
        body = adapters.error_body(api_key, version, request_entity(api_key, version), E.producer_fenced)
        frame = codec.encode_response(api_key, version, 1, body)
        found = repr(codec.decode_response(api_key, version, frame)[1])
        assert ("producer_fenced" in found, "invalid_producer_epoch" in found) == (version >= since, version < since)


def request_entity(api_key: int, version: int) -> Any:
    frame = codec.encode_request(api_key, version, 1, "c", BODIES[api_key])
    return codec.decode_request(codec.decode_header(frame), frame)


@pytest.mark.parametrize("version", codec.versions_of(22))
def test_what_a_producer_gets(version: int) -> None:
    entity = response_of(22, version, InitProducerIdResponse(producer_id=7, producer_epoch=3))
    assert (entity.error_code, entity.producer_id, entity.producer_epoch) == (E.none, 7, 3)


@pytest.mark.parametrize("version", codec.versions_of(26))
def test_what_the_end_gives(version: int) -> None:
    entity = response_of(26, version, EndTxnResponse(producer_id=7, producer_epoch=3))
    assert entity.error_code is E.none
    assert codec.field(entity, "producer_epoch", None) == (3 if version >= 5 else None)


@pytest.mark.parametrize("version", codec.versions_of(24))
def test_partitions_by_topic(version: int) -> None:
    entity = response_of(24, version, failed(add((7, 3), T0, U0, T1), E.none))
    topics = entity.results_by_transaction[0].topic_results if version >= 4 else entity.results_by_topic_v3_and_below
    found = {topic.name: [each.partition_index for each in topic.results_by_partition] for topic in topics}
    assert found == {"t": [0, 1], "u": [0]}


def test_the_other_responses() -> None:
    assert response_of(25, 4, AddOffsetsToTxnResponse()).error_code is E.none
    described = DescribedTransaction(
        transactional_id=X,
        transaction_state="Ongoing",
        transaction_timeout=60_000,
        transaction_start_time=1_700_000_000_000,
        producer_id=7,
        producer_epoch=3,
        topics=(DescribedTopic("t", (0, 1)),),
    )
    (state,) = response_of(65, 0, DescribeTransactionsResponse(transaction_states=(described,))).transaction_states
    assert state.transaction_timeout == 60_000
    assert state.transaction_start_time == 1_700_000_000_000
    assert state.topics[0].partitions == (0, 1)
    listed = ListedTransaction(transactional_id=TransactionalId("x"), producer_id=7, transaction_state="Empty")
    response = ListTransactionsResponse(unknown_state_filters=("Bogus",), transaction_states=(listed,))
    for version in codec.versions_of(66):
        entity = response_of(66, version, response)
        assert (entity.unknown_state_filters, entity.transaction_states[0].producer_id) == (("Bogus",), 7)


def test_a_transaction_that_has_not_begun() -> None:
    described = DescribedTransaction(transactional_id=X, transaction_state="Empty", transaction_start_time=-1)
    (state,) = response_of(65, 0, DescribeTransactionsResponse(transaction_states=(described,))).transaction_states
    assert (state.transaction_state, state.transaction_timeout, state.transaction_start_time) == ("Empty", 0, -1)

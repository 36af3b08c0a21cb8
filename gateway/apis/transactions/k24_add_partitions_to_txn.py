"""AddPartitionsToTxn (api key 24), v0-5.

v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH | v3 flexible
v4 several transactions, or verification only, as Kafka's brokers send it (KIP-890) | v5 TRANSACTION_ABORTABLE
Nothing is added to a transaction unless all partitions can be: the others then get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from muster.actors.transactions.apis.partitions import refused
from muster.actors.transactions.codec import adapters
from muster.actors.transactions.messages import (
    BY_BROKERS_FROM,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    PartitionsOfTransaction,
    TransactionResult,
    results_of,
)
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import Body, ErrorCode, field
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID, the_cluster
from muster.gateway.apis.partitions import existence_error, named
from muster.gateway.apis.transactions.forwarding import DOWN, call_coordinator, error_body, forward
from muster.gateway.listener.api import Call, Reply, Rule, api

ADD_PARTITIONS_TO_TXN = 24


def _refused_whole(call: Call, error: ErrorCode) -> Body:
    if call.header.api_version < BY_BROKERS_FROM:
        return error_body(call, error)
    return {"error_code": error, "results_by_transaction": ()}


def _of_producer(call: Call) -> Iterable[str]:
    """Return the transactional id, in versions that producers send."""
    name: str | None = field(call.entity(), "v3_and_below_transactional_id", None)
    return () if name is None else (name,)


def _of_brokers(call: Call) -> Iterable[str]:
    return the_cluster(call) if call.header.api_version >= BY_BROKERS_FROM else ()


_GUARD = Guard(
    Need((WRITE_TRANSACTIONAL_ID,), _of_producer, "up to v3"),
    Need((CLUSTER_ACTION,), _of_brokers, "from v4 on"),
    inside=(Rule((WRITE_TOPIC,), "up to v3", ErrorCode.topic_authorization_failed),),
    body=_refused_whole,
)


@api(ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", guard=_GUARD, error_body=error_body)
async def add_partitions_to_txn(call: Call) -> Reply | None:
    version = call.header.api_version
    request = adapters.decode(call.header.api_key, version, call.entity())
    assert isinstance(request, AddPartitionsToTxn)
    results = await call.each(request.transactions, partial(_refused, call, version))
    if version >= BY_BROKERS_FROM:
        return await _each(call, request.transactions, results)
    if results[0] is not None:
        response = AddPartitionsToTxnResponse(results_by_transaction=(results[0],))
        return call.reply(adapters.encode(version, response))
    return await forward(call, request.transactions[0].transactional_id)


def _refused(call: Call, version: int, transaction: PartitionsOfTransaction) -> TransactionResult | None:
    return refused(transaction, version, partial(_error, call))


def _error(call: Call, topic: str, partition: int) -> ErrorCode:
    if call.header.api_version < BY_BROKERS_FROM and not WRITE_TOPIC.allowed(call, topic):
        return ErrorCode.topic_authorization_failed
    return existence_error(named(call.gateway, topic, None, partition)) or ErrorCode.none


async def _each(
    call: Call, transactions: Sequence[PartitionsOfTransaction], refusals: Sequence[TransactionResult | None]
) -> Reply:
    """Serve a request of several transactions: split by their coordinators, and merged as bytes."""
    results = await call.each(refusals, lambda each: b"" if each is None else _element(call, each))
    parts: dict[int, list[int]] = {}
    for index, transaction in enumerate(transactions):
        if refusals[index] is not None:
            continue
        if not transaction.transactional_id:
            results[index] = _failed(call, transaction, ErrorCode.invalid_request)
        else:
            partition = call.gateway.transactions_partition_of(transaction.transactional_id)
            parts.setdefault(partition, []).append(index)
    added = await asyncio.gather(*(_add(call, [transactions[at] for at in part], part) for part in parts.values()))
    for part, found in zip(parts.values(), added, strict=True):
        for index, result in zip(part, found, strict=True):
            results[index] = result
    body = {"throttle_time": 0, "error_code": ErrorCode.none, "results_by_transaction": ()}
    return call.reply_joined(body, results)


async def _add(call: Call, transactions: list[PartitionsOfTransaction], indexes: list[int]) -> list[bytes]:
    """Return the results for transactions of one coordinator, which are at these indexes of the request."""
    header = call.header
    wanted = call.entity().transactions
    body: dict[str, Any] = {"transactions": [wanted[index] for index in indexes]}
    frame = codec.encode_request(header.api_key, header.api_version, header.correlation_id, header.client_id, body)
    response = await call_coordinator(call, transactions[0].transactional_id, frame)
    if response is None:
        return [_failed(call, each, DOWN) for each in transactions]
    return codec.split_response(ADD_PARTITIONS_TO_TXN, header.api_version, response)


def _failed(call: Call, transaction: PartitionsOfTransaction, error: ErrorCode) -> bytes:
    return _element(call, results_of(transaction, dict.fromkeys(transaction.partitions, error)))


def _element(call: Call, result: TransactionResult) -> bytes:
    return codec.element(ADD_PARTITIONS_TO_TXN, call.header.api_version, "results_by_transaction", result)

"""DescribeTransactions (api key 65), v0: split by the producers' coordinators; their responses are merged as bytes."""

from __future__ import annotations

import asyncio
from typing import Any

from muster.actors.wire.kafka import codec
from muster.gateway.apis.guards.guard import Each, Guard
from muster.gateway.apis.guards.rights import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID, itself
from muster.gateway.apis.transactions.forwarding import DOWN, call_coordinator, error_body
from muster.gateway.listener.api import Call, Reply, Rule, api

DESCRIBE_TRANSACTIONS = 65


_GUARD = Guard(
    each=Each((DESCRIBE_TRANSACTIONAL_ID,), "transactional_ids", "transaction_states", itself),
    inside=(Rule((DESCRIBE_TOPIC,), "of the transaction", None),),
)


@api(DESCRIBE_TRANSACTIONS, "DescribeTransactions", guard=_GUARD, error_body=error_body)
async def describe_transactions(call: Call) -> Reply | None:
    names = call.entity().transactional_ids
    parts: dict[int, list[str]] = {}
    for name in dict.fromkeys(names):
        parts.setdefault(call.gateway.transactions_partition_of(name), []).append(name)
    described: dict[str, bytes] = {}
    for found in await asyncio.gather(*(_describe(call, part) for part in parts.values())):
        described |= found
    return call.reply_joined({"throttle_time": 0, "transaction_states": ()}, [described[name] for name in names])


async def _describe(call: Call, names: list[str]) -> dict[str, bytes]:
    """Return the states of transactions of one coordinator."""
    header = call.header
    version, body = header.api_version, {"transactional_ids": names}
    frame = codec.encode_request(header.api_key, version, header.correlation_id, header.client_id, body)
    response = await call_coordinator(call, names[0], frame)
    if response is not None:
        found = codec.split_response(DESCRIBE_TRANSACTIONS, version, response)
        return dict(zip(names, (_seen(call, state) for state in found), strict=True))
    return {name: _down(version, name) for name in names}


def _seen(call: Call, state: bytes) -> bytes:
    """Return a state, without the topics that the client may not see."""

    def is_seen(topic: Any) -> bool:
        return DESCRIBE_TOPIC.allowed(call, topic.topic, logged=False)

    if call.gateway.authorizer is None:
        return state
    return codec.filtered(DESCRIBE_TRANSACTIONS, call.header.api_version, "transaction_states", state, is_seen)


def _down(version: int, name: str) -> bytes:
    body = {
        "error_code": DOWN if name else codec.ErrorCode.invalid_request,
        "transactional_id": name,
        "transaction_state": "",
        "transaction_timeout": 0,
        "transaction_start_time": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": (),
    }
    return codec.element(DESCRIBE_TRANSACTIONS, version, "transaction_states", body)

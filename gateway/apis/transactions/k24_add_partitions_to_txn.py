"""AddPartitionsToTxn (api key 24), v0-3.

v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH | v3 flexible
Nothing is added unless all partitions can be: the others then get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from functools import partial

from muster.actors.transactions.apis.partitions import refused
from muster.actors.transactions.codec import adapters
from muster.actors.transactions.messages import AddPartitionsToTxn
from muster.actors.wire.codec import ErrorCode
from muster.gateway.apis.admin import INTERNAL_TOPICS
from muster.gateway.apis.partitions import existence_error, named
from muster.gateway.apis.transactions.forwarding import error_body, forward
from muster.gateway.listener.gateway import Gateway
from muster.gateway.listener.registry import Call, Reply, api

_BETWEEN_BROKERS = "between Kafka's brokers, which verify transactions with them"


@api(24, "AddPartitionsToTxn", error_body=error_body, versions=range(4), left_out=_BETWEEN_BROKERS)
async def add_partitions_to_txn(call: Call) -> Reply | None:
    version = call.header.api_version
    request = adapters.decode(call.header.api_key, version, call.entity())
    assert isinstance(request, AddPartitionsToTxn)
    response = refused(request, partial(_error, call.gateway))
    if response is not None:
        return call.reply(adapters.encode(version, response))
    return await forward(call, request.transactions[0].transactional_id)


def _error(gateway: Gateway, topic: str, partition: int) -> ErrorCode:
    """Why that partition cannot be in a transaction."""
    if topic in INTERNAL_TOPICS:
        return ErrorCode.topic_authorization_failed
    return existence_error(named(gateway, topic, None, partition)) or ErrorCode.none

"""AddPartitionsToTxn (api key 24), v0-3.

v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH | v3 flexible
Nothing is added unless all partitions can be: the others then get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.codec import ErrorCode
from muster.gateway.apis.admin import INTERNAL_TOPICS
from muster.gateway.apis.partitions import existence_error, named
from muster.gateway.apis.transactions.forwarding import error_body, forward
from muster.gateway.listener.gateway import Gateway
from muster.gateway.listener.registry import Call, Reply, api

_BETWEEN_BROKERS = "between Kafka's brokers, which verify transactions with them"


@api(24, "AddPartitionsToTxn", error_body=error_body, versions=range(4), left_out=_BETWEEN_BROKERS)
async def add_partitions_to_txn(call: Call) -> Reply | None:
    request = call.entity()
    topics = request.v3_and_below_topics
    errors = {
        (topic.name, partition): _error(call.gateway, topic.name, partition)
        for topic in topics
        for partition in topic.partitions
    }
    if not any(errors.values()):
        return await forward(call, request.v3_and_below_transactional_id)
    return call.reply(
        {"throttle_time": 0, "results_by_topic_v3_and_below": [_refused(each, errors) for each in topics]}
    )


def _error(gateway: Gateway, topic: str, partition: int) -> ErrorCode:
    """Why that partition cannot be in a transaction."""
    if topic in INTERNAL_TOPICS:
        return ErrorCode.topic_authorization_failed
    return existence_error(named(gateway, topic, None, partition)) or ErrorCode.none


def _refused(topic: Any, errors: dict[tuple[str, int], ErrorCode]) -> dict[str, Any]:
    results = [
        {
            "partition_index": partition,
            "partition_error_code": errors[topic.name, partition] or ErrorCode.operation_not_attempted,
        }
        for partition in topic.partitions
    ]
    return {"name": topic.name, "results_by_partition": results}

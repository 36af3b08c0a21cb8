"""TxnOffsetCommit (api key 28), v0-5: a group's offsets, committed in a producer's transaction.

As in OffsetCommit, what does not exist is refused here (UNKNOWN_TOPIC_OR_PARTITION), and the rest goes to the group's
actor, which verifies the transaction.

It is evidence that its connection works for the group. Most producers have connections of their own, which never
fetch, so it changes nothing; clients that consume and produce over one connection are members' clients.
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.groups.commits import Known, all_known, existing_part, partition_body
from muster.gateway.apis.groups.forwarding import Whole, call_coordinator, down_error, error_body, saw_group
from muster.gateway.apis.guards.guard import Each, Guard, Need
from muster.gateway.apis.guards.rights import READ_GROUP, READ_TOPIC, WRITE_TRANSACTIONAL_ID, group_id, transactional_id
from muster.gateway.apis.partition_errors import Errors, PartitionErrors
from muster.gateway.listener.api import Call, Reply, api

TXN_OFFSET_COMMIT = 28
_KNOWS_LOADING = 2
"""The first version of producers that do not fail at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
_WHOLE = Whole(fits=all_known)


_GUARD = Guard(
    Need((WRITE_TRANSACTIONAL_ID,), transactional_id),
    Need((READ_GROUP,), group_id),
    each=Each((READ_TOPIC,), "topics", "topics"),
)


@api(
    TXN_OFFSET_COMMIT, "TxnOffsetCommit", guard=_GUARD, error_body=error_body, is_evidence=True, forward=_WHOLE.forward
)
async def txn_offset_commit(call: Call) -> Reply | None:
    if all_known(call):
        return await _WHOLE.serve(call)
    request = call.entity()
    results = PartitionErrors()
    known = [topic for topic in (existing_part(call, topic, results) for topic in request.topics) if topic.partitions]
    saw_group(call, request.group_id)
    if known:
        results.set_errors(zip((topic.key for topic in known), await _commit(call, request, known), strict=True))
    return call.reply({"throttle_time": 0, "topics": results.body()})


async def _commit(call: Call, request: Any, known: list[Known]) -> list[Errors]:
    """Errors of each topic, in the given order."""
    version = call.header.api_version
    body = {
        "transactional_id": request.transactional_id,
        "group_id": request.group_id,
        "producer_id": request.producer_id,
        "producer_epoch": request.producer_epoch,
        "generation_id": field(request, "generation_id", -1),
        "member_id": field(request, "member_id", ""),
        "group_instance_id": field(request, "group_instance_id", None),
        "topics": [
            {"name": topic.name, "partitions": [partition_body(item) for item in topic.partitions]} for topic in known
        ],
    }
    frame = codec.encode_request(TXN_OFFSET_COMMIT, version, call.header.correlation_id, call.header.client_id, body)
    response_frame = await call_coordinator(call, request.group_id, frame)
    if response_frame is None:
        error = down_error(call)
        if error is ErrorCode.coordinator_load_in_progress and version < _KNOWS_LOADING:
            error = ErrorCode.coordinator_not_available
        return [[(item.partition_index, error) for item in topic.partitions] for topic in known]
    _, response = codec.decode_response(TXN_OFFSET_COMMIT, version, response_frame)
    return [[(item.partition_index, item.error_code) for item in topic.partitions] for topic in response.topics]

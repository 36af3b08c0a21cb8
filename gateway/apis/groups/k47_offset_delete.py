"""OffsetDelete (api key 47), v0.

Topics and partitions that do not exist are refused here (UNKNOWN_TOPIC_OR_PARTITION). The group's actor gets a request
even if nothing is left, since an error of the group applies to the whole response.
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.groups.forwarding import call_coordinator, down_error, error_body
from muster.gateway.apis.guards.guard import Each, Guard, Need
from muster.gateway.apis.guards.rights import DELETE_GROUP, READ_TOPIC, group_id
from muster.gateway.apis.partition_errors import PartitionErrors
from muster.gateway.apis.partitions import existence_error, named
from muster.gateway.listener.api import Call, Reply, api

OFFSET_DELETE = 47
VERSION = 0


def _refused_topics(call: Call, error: ErrorCode) -> dict[str, Any]:
    results = PartitionErrors()
    for topic in call.entity().topics:
        results.refuse((topic.name, None), [(item.partition_index, error) for item in topic.partitions])
    return {"error_code": ErrorCode.none, "throttle_time": 0, "topics": results.body()}


_GUARD = Guard(Need((DELETE_GROUP,), group_id), each=Each((READ_TOPIC,), "topics", "topics", body=_refused_topics))


@api(OFFSET_DELETE, "OffsetDelete", guard=_GUARD, error_body=error_body, is_change=True)
async def offset_delete(call: Call) -> Reply | None:
    request = call.entity()
    results = PartitionErrors()
    known = [topic for topic in (_known(call, topic, results) for topic in request.topics) if topic["partitions"]]
    frame = codec.encode_request(
        OFFSET_DELETE,
        VERSION,
        call.header.correlation_id,
        call.header.client_id,
        {"group_id": request.group_id, "topics": known},
    )
    response_frame = await call_coordinator(call, request.group_id, frame)
    if response_frame is None:
        return _refused(call, down_error(call))
    response = codec.decode_response(OFFSET_DELETE, VERSION, response_frame)[1]
    if response.error_code is not ErrorCode.none:
        return _refused(call, response.error_code)
    results.set_errors(
        ((topic.name, None), [(item.partition_index, item.error_code) for item in topic.partitions])
        for topic in response.topics
    )
    return call.reply({"error_code": ErrorCode.none, "throttle_time": 0, "topics": results.body()})


def _known(call: Call, topic: Any, results: PartitionErrors) -> dict[str, Any]:
    """Return the part of the topic that exists, for the coordinator; refuse the rest."""
    indexes = [item.partition_index for item in topic.partitions]
    errors = {index: existence_error(named(call.gateway, topic.name, None, index)) for index in indexes}
    refused = [(index, error) for index in indexes if (error := errors[index]) is not None]
    if refused or topic.name not in call.gateway.view.topics:
        results.refuse((topic.name, None), refused)
    known = [{"partition_index": index} for index in indexes if errors[index] is None]
    return {"name": topic.name, "partitions": known}


def _refused(call: Call, error: ErrorCode) -> Reply:
    return call.reply({"error_code": error, "throttle_time": 0, "topics": []})

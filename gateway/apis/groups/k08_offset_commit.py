"""OffsetCommit (api key 8), v2-10.

Topics and partitions that do not exist are refused here (UNKNOWN_TOPIC_OR_PARTITION, v10 by id:
UNKNOWN_TOPIC_ID); the rest goes to the group's actor, which gets no request if nothing is left. v10 names
topics by id (KIP-848); the actor gets names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from muster.actors.group.codec.plain_commits import PlainTopic, read_plain_commit
from muster.actors.wire import codec
from muster.actors.wire.codec import ErrorCode, field
from muster.gateway.apis.groups.forwarding import Whole, call_coordinator, down_error, error_body, saw_group
from muster.gateway.apis.partition_errors import Errors, PartitionErrors, TopicKey
from muster.gateway.apis.partitions import existence_error, named
from muster.gateway.listener.registry import Call, Reply, api
from muster.placement.view import Topic

OFFSET_COMMIT = 8
NEWEST_BY_NAME = 9


class Known(NamedTuple):
    """The part of a topic of the request that exists."""

    key: TopicKey
    name: str
    partitions: list[Any]


def _is_known(call: Call) -> bool:
    """Whether the request names topics, and of each at least one partition, and all of them exist."""
    plain = read_plain_commit(call.header.api_version, call.frame, call.header.end)
    if plain is not None:
        call.peeked = plain
        return _all_exist(call.gateway.view.topics, plain.topics)
    topics = call.entity().topics
    if call.header.api_version > NEWEST_BY_NAME or not topics:
        return False
    for topic in topics:
        found = call.gateway.view.topics.get(topic.name)
        if found is None or not topic.partitions:
            return False
        if not all(0 <= item.partition_index < found.partitions for item in topic.partitions):
            return False
    return True


def _all_exist(existing: Mapping[str, Topic], topics: Iterable[PlainTopic]) -> bool:
    for topic in topics:
        found = existing.get(topic.name)
        if found is None or min(topic.indexes) < 0 or max(topic.indexes) >= found.partitions:
            return False
    return True


def _group_id(call: Call) -> str:
    group_id: str = (call.peeked or call.entity()).group_id
    return group_id


_WHOLE = Whole(fits=_is_known, group_id=_group_id)


@api(OFFSET_COMMIT, "OffsetCommit", error_body=error_body, is_evidence=True, forward=_WHOLE.forward)
async def offset_commit(call: Call) -> Reply | None:
    if _is_known(call):
        return await _WHOLE.serve(call)
    request = call.entity()
    results = PartitionErrors()
    known = [topic for topic in (_known(call, topic, results) for topic in request.topics) if topic.partitions]
    saw_group(call, request.group_id)
    if known:
        results.set_errors(zip((topic.key for topic in known), await _commit(call, request, known), strict=True))
    return call.reply({"throttle_time": 0, "topics": results.body()})


def _known(call: Call, topic: Any, results: PartitionErrors) -> Known:
    """Return the part of the topic that exists; refuse the rest."""
    key: TopicKey = (field(topic, "name", None), field(topic, "topic_id", None))
    refused: list[tuple[int, ErrorCode]] = []
    known: list[Any] = []
    name = ""
    for item in topic.partitions:
        partition = named(call.gateway, *key, item.partition_index)
        if (error := existence_error(partition)) is not None:
            refused.append((item.partition_index, error))
        elif partition.topic is not None:
            name = partition.topic.name
            known.append(item)
    if refused:
        results.refuse(key, refused)
    return Known(key, name, known)


async def _commit(call: Call, request: Any, known: list[Known]) -> list[Errors]:
    """Errors of each topic, in the given order."""
    version = min(call.header.api_version, NEWEST_BY_NAME)
    body = {
        "group_id": request.group_id,
        "generation_id_or_member_epoch": field(request, "generation_id_or_member_epoch", -1),
        "member_id": field(request, "member_id", ""),
        "group_instance_id": field(request, "group_instance_id", None),
        "retention_time": codec.ms(request.retention_time) if hasattr(request, "retention_time") else -1,
        "topics": [
            {"name": topic.name, "partitions": [_partition(item) for item in topic.partitions]} for topic in known
        ],
    }
    frame = codec.encode_request(OFFSET_COMMIT, version, call.header.correlation_id, call.header.client_id, body)
    response_frame = await call_coordinator(call, request.group_id, frame)
    if response_frame is None:
        error = down_error(call)
        return [[(item.partition_index, error) for item in topic.partitions] for topic in known]
    _, response = codec.decode_response(OFFSET_COMMIT, version, response_frame)
    return [[(item.partition_index, item.error_code) for item in topic.partitions] for topic in response.topics]


def _partition(item: Any) -> dict[str, Any]:
    return {
        "partition_index": item.partition_index,
        "committed_offset": item.committed_offset,
        "committed_leader_epoch": field(item, "committed_leader_epoch", -1),
        "committed_metadata": item.committed_metadata,
    }

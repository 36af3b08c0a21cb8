"""OffsetCommit (api key 8), v2-10.

Topics and partitions that do not exist are refused here (UNKNOWN_TOPIC_OR_PARTITION, v10 by id:
UNKNOWN_TOPIC_ID); the rest goes to the group's actor, which gets no request if nothing is left. v10 names
topics by id (KIP-848); the actor gets names.

A request that names no topic goes there, too: it changes nothing, but says on this connection which group a reader
without membership reads for (docs/attribution.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from muster.actors.wire.kafka import codec, into
from muster.actors.wire.kafka.codec import field
from muster.actors.wire.kafka.into import Column, Into
from muster.gateway.apis.groups.commits import Known, all_known, existing_part, partition_body
from muster.gateway.apis.groups.forwarding import Whole, call_coordinator, down_error, error_body, peeked, saw_group
from muster.gateway.apis.guards.guard import Each, Guard, Need
from muster.gateway.apis.guards.rights import READ_GROUP, READ_TOPIC
from muster.gateway.apis.partition_errors import Errors, PartitionErrors
from muster.gateway.listener.api import Call, Reply, api
from muster.placement.view import Topic

OFFSET_COMMIT = 8
NEWEST_BY_NAME = 9


class _Topic(NamedTuple):
    name: str
    indexes: tuple[int, ...]
    """Indexes of the partitions."""


class _Commit(NamedTuple):
    """The parts of a request that have to be known to forward it."""

    group_id: str
    generation_id: int
    topics: tuple[_Topic, ...]


_TOPIC = Into(_Topic, name="name", indexes=Column("partitions", "partition_index"))
_COMMIT = Into(
    _Commit, group_id="group_id", generation_id="generation_id_or_member_epoch", topics=into.Each("topics", _TOPIC)
)


def _by_name(call: Call) -> _Commit | None:
    """Return what the request commits; None if it names topics by id, or is large."""
    commit: _Commit | None = peeked(call, _COMMIT) if call.header.api_version <= NEWEST_BY_NAME else None
    return commit


def _is_known(call: Call) -> bool:
    """Whether all that the request names exists, of each topic at least one partition. It may name nothing."""
    commit = _by_name(call)
    if commit is not None:
        return _all_exist(call.gateway.view.topics, commit.topics)
    return call.header.api_version <= NEWEST_BY_NAME and (not call.entity().topics or all_known(call))


def _all_exist(existing: Mapping[str, Topic], topics: Sequence[_Topic]) -> bool:
    for topic in topics:
        found = existing.get(topic.name)
        if found is None or not topic.indexes or min(topic.indexes) < 0 or max(topic.indexes) >= found.partitions:
            return False
    return True


def _group_id(call: Call) -> str:
    group_id: str = (_by_name(call) or call.entity()).group_id
    return group_id


def _topic_names(call: Call) -> Iterable[str] | None:
    commit = _by_name(call)
    return None if commit is None else [topic.name for topic in commit.topics]


_GUARD = Guard(
    Need((READ_GROUP,), lambda call: (_group_id(call),)),
    each=Each((READ_TOPIC,), "topics", "topics", names=_topic_names),
)
_WHOLE = Whole(fits=_is_known, group_id=_group_id)


@api(OFFSET_COMMIT, "OffsetCommit", guard=_GUARD, error_body=error_body, is_evidence=True, forward=_WHOLE.forward)
async def offset_commit(call: Call) -> Reply | None:
    if _is_known(call):
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
    version = min(call.header.api_version, NEWEST_BY_NAME)
    body = {
        "group_id": request.group_id,
        "generation_id_or_member_epoch": field(request, "generation_id_or_member_epoch", -1),
        "member_id": field(request, "member_id", ""),
        "group_instance_id": field(request, "group_instance_id", None),
        "retention_time": field(request, "retention_time", -1),
        "topics": [
            {"name": topic.name, "partitions": [partition_body(item) for item in topic.partitions]} for topic in known
        ],
    }
    frame = codec.encode_request(OFFSET_COMMIT, version, call.header.correlation_id, call.header.client_id, body)
    response_frame = await call_coordinator(call, request.group_id, frame)
    if response_frame is None:
        error = down_error(call)
        return [[(item.partition_index, error) for item in topic.partitions] for topic in known]
    _, response = codec.decode_response(OFFSET_COMMIT, version, response_frame)
    return [[(item.partition_index, item.error_code) for item in topic.partitions] for topic in response.topics]

"""The topics of OffsetCommit and TxnOffsetCommit: what exists of them, and its part of a request to the coordinator."""

from __future__ import annotations

from typing import Any, NamedTuple

from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.partition_errors import PartitionErrors, TopicKey
from muster.gateway.apis.partitions import existence_error, named
from muster.gateway.listener.api import Call


class Known(NamedTuple):
    """The part of a topic of the request that exists."""

    key: TopicKey
    name: str
    partitions: list[Any]


def all_known(call: Call) -> bool:
    """Whether the request names topics, and of each at least one partition, and all of them exist."""
    topics = call.entity().topics
    for topic in topics:
        found = call.gateway.view.topics.get(topic.name)
        if found is None or not topic.partitions:
            return False
        if not all(0 <= item.partition_index < found.partitions for item in topic.partitions):
            return False
    return bool(topics)


def existing_part(call: Call, topic: Any, results: PartitionErrors) -> Known:
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


def partition_body(item: Any) -> dict[str, Any]:
    """Return the partition in the request to the coordinator."""
    return {
        "partition_index": item.partition_index,
        "committed_offset": item.committed_offset,
        "committed_leader_epoch": field(item, "committed_leader_epoch", -1),
        "committed_metadata": item.committed_metadata,
    }

"""Offsets: of logs, at their leaders, and those that a group has committed, at its coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.kafka.brokers import RETRIABLE, Brokers
from muster.gateway.client.kafka.leaders import Leaders, TopicPartition, check_or_later
from muster.gateway.client.kafka.refusals import check
from muster.gateway.client.kafka.requests import LIST_OFFSETS, NO_LEADER_EPOCH, NO_REPLICA, READ_COMMITTED

if TYPE_CHECKING:
    from muster.gateway.client.kafka.connection import Connection

OFFSET_FETCH = (9, 8)
NO_OFFSET = -1
UNSTABLE = RETRIABLE | {ErrorCode.unstable_offset_commit}
"""Errors that pass once a transaction with offsets has ended."""


class Committed(NamedTuple):
    """A committed offset and its metadata."""

    offset: int
    metadata: str


def log_offsets(
    leaders: Leaders, partitions: Iterable[TopicPartition], at: int, isolation_level: int = READ_COMMITTED
) -> dict[TopicPartition, int]:
    """Return an offset of each partition. Raises Refused, UnknownTopic or NoResponse.

    ``at``: EARLIEST; LATEST for the last stable offset, or the high watermark with READ_UNCOMMITTED; or a time in ms,
    for the first record that is not older, ``NO_OFFSET`` if there is none.
    """

    def request(connection: Connection, of_leader: list[TopicPartition]) -> dict[TopicPartition, int]:
        topics: dict[str, list[dict[str, int]]] = {}
        for topic, index in of_leader:
            wanted = {"partition_index": index, "current_leader_epoch": NO_LEADER_EPOCH, "timestamp": at}
            topics.setdefault(topic, []).append(wanted)
        named = [{"name": topic, "partitions": wanted} for topic, wanted in topics.items()]
        body = {"replica_id": NO_REPLICA, "isolation_level": isolation_level, "topics": named}
        return {
            (topic.name, each.partition_index): each.offset
            for topic in connection.request(*LIST_OFFSETS, body).topics
            for each in topic.partitions
            if check_or_later(each, f"offsets of {topic.name}-{each.partition_index} cannot be read")
        }

    return leaders.of_each(partitions, request)


def committed(coordinator: Brokers, group: str, *, stable: bool = True) -> dict[TopicPartition, Committed]:
    """Return what the group has committed of every partition. Raises Refused or NoResponse.

    ``stable``: it waits for transactions with offsets of the group to end (KIP-447).
    """
    body = {"groups": [{"group_id": group, "topics": None}], "require_stable": stable}
    response = coordinator.request(*OFFSET_FETCH, body, retriable=UNSTABLE)
    (found,) = response.groups
    check(found, f"offsets of group {group} cannot be read")
    result = {}
    for topic in found.topics:
        for each in topic.partitions:
            check(each, f"the offset of {topic.name}-{each.partition_index} cannot be read")
            if each.committed_offset >= 0:
                result[topic.name, each.partition_index] = Committed(each.committed_offset, each.metadata or "")
    return result

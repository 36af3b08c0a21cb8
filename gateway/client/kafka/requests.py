"""Requests that more than one caller has, to any broker: topics and offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.kafka.refusals import check
from muster.placement.host_port import host_port

METADATA, LIST_OFFSETS = (3, 12), (2, 7)
EARLIEST, LATEST = -2, -1
"""In place of a time, in ListOffsets."""
NO_LEADER_EPOCH, NO_REPLICA, READ_UNCOMMITTED, READ_COMMITTED = -1, -1, 0, 1


class Requests(Protocol):
    """Sends requests to whom may serve them, such as :class:`muster.gateway.client.kafka.brokers.Brokers`."""

    def request(self, api_key: int, version: int, body: dict[str, Any], /) -> Any:
        """Return the decoded response. Raises MusterError if there is none."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Brokers and topics."""

    brokers: Mapping[int, str]
    """``HOST:PORT`` of each, by id."""
    topics: Mapping[str, Mapping[int, int]]
    """Leaders of the partitions, by topic and index."""


def metadata(client: Requests) -> Metadata:
    """Return the brokers and all topics. Raises MusterError."""
    response = client.request(*METADATA, of_topics(None))
    return Metadata(
        {each.node_id: host_port(each.host, each.port) for each in response.brokers},
        {
            topic.name: {each.partition_index: each.leader_id for each in topic.partitions}
            for topic in response.topics
            if topic.error_code is ErrorCode.none
        },
    )


def count_partitions(client: Requests, topic: str) -> int:
    """Return the number of the topic's partitions; create it if ``auto.create.topics.enable`` is true.

    Raises Refused, whose message is the error alone, or NoResponse.
    """
    names = [{"topic_id": None, "name": topic}]
    (found,) = client.request(*METADATA, of_topics(names, create=True)).topics
    check(found, "")
    return len(found.partitions)


def of_topics(names: Sequence[Mapping[str, Any]] | None, *, create: bool = False) -> dict[str, Any]:
    """Return the body of Metadata for these topics; None: all."""
    return {"topics": names, "allow_auto_topic_creation": create, "include_topic_authorized_operations": False}


def list_offsets(client: Requests, partitions: Iterable[tuple[str, int]], at: int) -> dict[tuple[str, int], int]:
    """Return the offset of each topic and partition, negative if no message has the time. Raises MusterError.

    ``at``: ``EARLIEST``, ``LATEST`` or a time in ms.
    """
    topics: dict[str, list[dict[str, int]]] = {}
    for topic, index in partitions:
        wanted = {"partition_index": index, "current_leader_epoch": NO_LEADER_EPOCH, "timestamp": at}
        topics.setdefault(topic, []).append(wanted)
    if not topics:
        return {}
    named = [{"name": topic, "partitions": wanted} for topic, wanted in topics.items()]
    body = {"replica_id": NO_REPLICA, "isolation_level": READ_UNCOMMITTED, "topics": named}
    found: dict[tuple[str, int], int] = {}
    for topic in client.request(*LIST_OFFSETS, body).topics:
        for each in topic.partitions:
            check(each, f"offsets of {topic.name}-{each.partition_index} cannot be read")
            found[topic.name, each.partition_index] = each.offset
    return found

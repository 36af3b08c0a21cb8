"""How far a group is behind: from a gateway's HTTP API, or by Kafka's protocol, as on a real Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import NoResponse, UnknownGroup
from muster.gateway.client.http import GatewayUrl, HttpError, get
from muster.gateway.client.kafka.brokers import TIMEOUT_S, Brokers, Coordinator
from muster.gateway.client.kafka.requests import LATEST, METADATA, Refused, check, list_offsets, of_topics
from muster.placement.host_port import host_port

if TYPE_CHECKING:
    from muster.gateway.client.security import Security

PATH = "/v1/groups/lag"
_HTTP_S = 10.0
_OFFSET_FETCH, _LIST_GROUPS = (9, 8), (16, 4)
_MOVED = frozenset(
    (ErrorCode.not_leader_or_follower, ErrorCode.leader_not_available, ErrorCode.unknown_topic_or_partition)
)
_PAUSE_S = 0.1
TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Lag of a group in one partition."""

    topic: str
    partition: int
    committed: int | None
    """The committed offset; None if a member has the partition, and the group has committed nothing there."""
    end: int | None
    """The end of the log; None if that is unknown."""
    messages: int | None
    """Unread messages; None if either is unknown."""
    seconds: float | None
    """Age of the oldest unread one; 0 if there is none, None if it is unknown."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of a group."""

    messages: int
    """Unread messages of all partitions with a committed offset."""
    seconds: float | None
    """Age of the oldest unread record; 0 if there is none, None if it is unknown."""
    behind: int
    """Partitions with unread messages."""
    partitions: tuple[PartitionLag, ...]
    """By topic and partition."""


def lag_of(
    group: str, http: Iterable[str], security: Security | None, client: Brokers, coordinator: Coordinator
) -> Lag:
    """Return the group's lag, from a gateway if one responds over HTTP and lets the caller; else by the brokers.

    Raises UnknownGroup, NoResponse, Refused, LoginFailed.
    """
    for base in http:
        try:
            found = get(GatewayUrl(base), PATH, {"group": group}, _HTTP_S, security)
        except HttpError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise unknown(group) from error
            break
        except (OSError, HTTPException, ValueError):
            continue
        if found["lag"] is not None:
            return _from_json(found)
    return _by_kafka(group, client, coordinator)


def unknown(group: str) -> UnknownGroup:
    """Return the error for a group that does not exist."""
    return UnknownGroup(f"there is no group {group}: a group exists once it has members or has committed an offset")


def _from_json(found: Mapping[str, Any]) -> Lag:
    rows = tuple(
        PartitionLag(
            row["topic"],
            row["partition"],
            row["committed_offset"],
            row["end_offset"],
            None if row["lag"] is None else max(row["lag"], 0),
            row["lag_s"],
        )
        for row in found["partitions"]
    )
    return Lag(found["lag"], found["lag_s"], found["behind"], rows)


def _by_kafka(group: str, client: Brokers, coordinator: Coordinator) -> Lag:
    committed = _committed(group, coordinator)
    ends = end_offsets(client, committed)
    rows = tuple(_row(key, offset, ends.get(key)) for key, offset in sorted(committed.items()))
    messages = sum(row.messages or 0 for row in rows)
    known = all(row.messages is not None for row in rows)
    return Lag(messages, 0.0 if known and not messages else None, sum(bool(row.messages) for row in rows), rows)


def _row(key: TopicPartition, committed: int, end: int | None) -> PartitionLag:
    messages = None if end is None else max(end - committed, 0)
    return PartitionLag(*key, committed, end, messages, 0.0 if messages == 0 else None)


def _committed(group: str, coordinator: Coordinator) -> dict[TopicPartition, int]:
    """Return the committed offsets. Raises UnknownGroup if there are none and the coordinator knows no such group."""
    body = {"groups": [{"group_id": group, "topics": None}], "require_stable": False}
    (found,) = coordinator.request(*_OFFSET_FETCH, body).groups
    check(found, f"offsets of group {group} cannot be read")
    committed = {
        (topic.name, each.partition_index): each.committed_offset
        for topic in found.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }
    if not committed:
        listed = coordinator.request(*_LIST_GROUPS, {"states_filter": []})
        check(listed, "groups cannot be listed")
        if group not in {each.group_id for each in listed.groups}:
            raise unknown(group)
    return committed


def end_offsets(client: Brokers, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the end of each partition's log, by its leader; none of a partition whose topic no longer exists.

    Raises NoResponse, Refused.
    """
    until_s = time.monotonic() + TIMEOUT_S
    left, found = set(partitions), dict[TopicPartition, int]()
    while left:
        failure: Refused | NoResponse | None = None
        for address, led in _by_leader(client, left).items():
            try:
                with client.at(address) as leader:
                    found |= list_offsets(leader, sorted(led), LATEST, timeout_s=0)
            except Refused as error:
                if error.error not in _MOVED:
                    raise
                failure = error
            except NoResponse as error:
                failure = error
        left -= found.keys()
        if failure is None:
            break
        if time.monotonic() > until_s:
            raise failure
        time.sleep(_PAUSE_S)
    return found


def _by_leader(client: Brokers, partitions: Iterable[TopicPartition]) -> dict[str, set[TopicPartition]]:
    """Group the partitions by the address of their leader; without those that do not exist."""
    names = sorted({topic for topic, _ in partitions})
    response = client.request(*METADATA, of_topics([{"topic_id": None, "name": name} for name in names]))
    addresses = {each.node_id: host_port(each.host, each.port) for each in response.brokers}
    leaders = {
        (topic.name, each.partition_index): addresses.get(each.leader_id)
        for topic in response.topics
        for each in topic.partitions
    }
    found: dict[str, set[TopicPartition]] = {}
    for key in partitions:
        if (address := leaders.get(key)) is not None:
            found.setdefault(address, set()).add(key)
    return found

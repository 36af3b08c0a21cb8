"""Reads, writes and deletes a group's committed offsets through its coordinator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import MusterError
from muster.gateway.client.groups.coordinators import GroupCoordinator

OFFSET_COMMIT, OFFSET_FETCH, DELETE_GROUPS, OFFSET_DELETE = 8, 9, 42, 47
_OFFSET_COMMIT_VERSION, _OFFSET_FETCH_VERSION, _DELETE_GROUPS_VERSION, _OFFSET_DELETE_VERSION = 7, 7, 2, 0
_NOBODY: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
_AT_ONCE = 2000
"""Partitions per request: the coordinator writes them as one batch, which max.message.bytes limits."""

Partition = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


HttpError = dict[Partition, ErrorCode]


def name_of(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def fetch(coordinator: GroupCoordinator) -> dict[Partition, Committed]:
    """Return all offsets that the group has committed; none if the group does not exist. Raises MusterError."""
    body = {"group_id": coordinator.group, "topics": None, "require_stable": True}
    response = coordinator.request(OFFSET_FETCH, _OFFSET_FETCH_VERSION, body)
    if response.error_code is not ErrorCode.none:
        raise MusterError(f"offsets of group {coordinator.group} cannot be read: {response.error_code.name.upper()}")
    return {
        (topic.name, item.partition_index): Committed(
            item.committed_offset, item.committed_leader_epoch, item.metadata or ""
        )
        for topic in response.topics
        for item in topic.partitions
        if item.error_code is ErrorCode.none and item.committed_offset >= 0
    }


def commit(coordinator: GroupCoordinator, offsets: Mapping[Partition, Committed]) -> HttpError:
    """Commit for a group without members. Returns what was refused. Raises MusterError."""
    refused: HttpError = {}
    for part in _parts(offsets):
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": index,
                        "committed_offset": offsets[topic, index].offset,
                        "committed_leader_epoch": offsets[topic, index].leader_epoch,
                        "committed_metadata": offsets[topic, index].metadata,
                    }
                    for index in indices
                ],
            }
            for topic, indices in part.items()
        ]
        body = {"group_id": coordinator.group, **_NOBODY, "topics": topics}
        refused |= _refused(coordinator.request(OFFSET_COMMIT, _OFFSET_COMMIT_VERSION, body))
    return refused


def delete(coordinator: GroupCoordinator, partitions: Collection[Partition]) -> HttpError:
    """Delete committed offsets. Returns the refused ones. Raises MusterError."""
    refused: HttpError = {}
    for part in _parts(partitions):
        topics = [
            {"name": topic, "partitions": [{"partition_index": index} for index in indices]}
            for topic, indices in part.items()
        ]
        response = coordinator.request(
            OFFSET_DELETE, _OFFSET_DELETE_VERSION, {"group_id": coordinator.group, "topics": topics}
        )
        if response.error_code not in (ErrorCode.none, ErrorCode.group_id_not_found):
            raise MusterError(
                f"offsets of group {coordinator.group} cannot be deleted: {response.error_code.name.upper()}"
            )
        refused |= _refused(response)
    return refused


def delete_group(coordinator: GroupCoordinator) -> ErrorCode:
    """Delete the group with all its offsets."""
    body = {"groups_names": [coordinator.group]}
    (result,) = coordinator.request(DELETE_GROUPS, _DELETE_GROUPS_VERSION, body).results
    error: ErrorCode = result.error_code
    return error


def _refused(response: Any) -> HttpError:
    return {
        (topic.name, item.partition_index): item.error_code
        for topic in response.topics
        for item in topic.partitions
        if item.error_code is not ErrorCode.none
    }


def _parts(partitions: Collection[Partition]) -> Iterator[dict[str, list[int]]]:
    """Yield by topic, at most _AT_ONCE partitions at a time."""
    ordered = sorted(partitions)
    for start in range(0, len(ordered), _AT_ONCE):
        part: dict[str, list[int]] = defaultdict(list)
        for topic, index in ordered[start : start + _AT_ONCE]:
            part[topic].append(index)
        yield part

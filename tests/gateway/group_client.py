"""A group member on its own connection, in any version, for tests of the group APIs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from muster.actors.wire.kafka.codec import ErrorCode, field, versions_of
from muster.placement.view import Topic
from tests.gateway.serving import Client, Serving

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP = 8, 9, 10, 11, 12, 13
SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, OFFSET_DELETE = 14, 15, 16, 42, 47
UNKNOWN_ID = UUID("00000000-0000-4000-8000-00000000dead")
NOBODY = Topic(name="nope", topic_id=UNKNOWN_ID, partitions=1)

Fresh = Callable[[str], str]


class Member:
    """One group member on its own connection; every API in the version nearest to ``version``."""

    def __init__(
        self,
        client: Client,
        group: str,
        version: int = 99,
        instance: str | None = None,
        protocol_type: str = "consumer",
    ) -> None:
        self.client = client
        self.group = group
        self.version = version
        self.instance = instance
        self.protocol_type = protocol_type
        self.id = ""
        self.generation = -1

    def nearest(self, api_key: int) -> int:
        versions = versions_of(api_key)
        return min(max(self.version, versions[0]), versions[-1])

    def exchange(self, api_key: int, **body: Any) -> Any:
        return self.client.exchange(api_key, self.nearest(api_key), {"group_id": self.group} | body)

    def _me(self) -> dict[str, Any]:
        return {"member_id": self.id, "generation_id": self.generation, "group_instance_id": self.instance}

    def request_join(
        self,
        session_timeout_ms: int = 30_000,
        rebalance_timeout_ms: int = 30_000,
        metadata: bytes = b"what I want",
    ) -> None:
        body = {
            "group_id": self.group,
            **self._me(),
            "session_timeout": session_timeout_ms,
            "rebalance_timeout": rebalance_timeout_ms,
            "protocol_type": self.protocol_type,
            "protocols": [{"name": "range", "metadata": metadata}],
            "reason": None,
        }
        self.client.request(JOIN_GROUP, self.nearest(JOIN_GROUP), body)

    def joined(self) -> Any:
        response = self.client.response(JOIN_GROUP, self.nearest(JOIN_GROUP))
        self.id, self.generation = response.member_id, response.generation_id
        return response

    def join(self, **changes: Any) -> Any:
        """Join, twice if the coordinator requires a member id (KIP-394)."""
        self.request_join(**changes)
        response = self.joined()
        if response.error_code is ErrorCode.member_id_required:
            assert self.nearest(JOIN_GROUP) >= 4
            assert self.instance is None
            self.request_join(**changes)
            response = self.joined()
        return response

    def sync(self, assignments: dict[str, bytes]) -> Any:
        items = [{"member_id": member, "assignment": data} for member, data in assignments.items()]
        protocol = {"protocol_type": self.protocol_type, "protocol_name": "range"}
        return self.exchange(SYNC_GROUP, **self._me(), **protocol, assignments=items)

    def heartbeat(self) -> ErrorCode:
        error: ErrorCode = self.exchange(HEARTBEAT, **self._me()).error_code
        return error

    def leave(self) -> Any:
        me = {"member_id": self.id, "group_instance_id": self.instance, "reason": "done"}
        return self.exchange(LEAVE_GROUP, member_id=self.id, members=[me])

    def commit(self, *offsets: tuple[Topic, int, int], metadata: str = "here") -> list[tuple[Any, int, ErrorCode]]:
        """(name or id, partition, error) of each offset."""
        me = self._me()
        topics = [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [
                    {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
                ],
            }
            for topic, partition, offset in offsets
        ]
        response = self.exchange(
            OFFSET_COMMIT,
            **me,
            generation_id_or_member_epoch=me["generation_id"],
            retention_time=-1,
            topics=topics,
        )
        return [
            (field(topic, "name", None) or topic.topic_id, item.partition_index, item.error_code)
            for topic in response.topics
            for item in topic.partitions
        ]

    def committed(self, topics: list[Topic] | None, partition: int = 0) -> list[tuple[Any, int, str | None, ErrorCode]]:
        """(name or id, offset, metadata, error) of one partition of each topic; of all committed ones for None."""
        requested = (
            None
            if topics is None
            else [
                {"name": topic.name, "topic_id": topic.topic_id, "partition_indexes": [partition]} for topic in topics
            ]
        )
        group = {"group_id": self.group, "member_id": None, "member_epoch": -1, "topics": requested}
        response = self.exchange(OFFSET_FETCH, topics=requested, groups=[group], require_stable=False)
        found = response.groups[0] if self.nearest(OFFSET_FETCH) >= 8 else response
        return [
            (field(topic, "name", None) or topic.topic_id, item.committed_offset, item.metadata, item.error_code)
            for topic in found.topics
            for item in topic.partitions
        ]


def find(client: Client, version: int, *keys: str, key_type: int = 0) -> list[Any]:
    """(key, node, error), also for the versions that look up a single key."""
    if version >= 4:
        response = client.exchange(FIND_COORDINATOR, version, {"key_type": key_type, "coordinator_keys": keys})
        return [(item.key, item.node_id, item.error_code) for item in response.coordinators]
    responses = [client.exchange(FIND_COORDINATOR, version, {"key_type": key_type, "key": key}) for key in keys]
    return [(key, item.node_id, item.error_code) for key, item in zip(keys, responses, strict=True)]


def groups_in_two_partitions(full: Serving, fresh: Fresh) -> tuple[str, str]:
    first = fresh("g")
    second = first
    while full.gateway.partition_of(second) == full.gateway.partition_of(first):
        second = fresh("g")
    find(full.client, 4, first, second)
    return first, second


def delete(client: Client, *groups: str, version: int = 2) -> list[tuple[str, ErrorCode]]:
    response = client.exchange(DELETE_GROUPS, version, {"groups_names": groups})
    return [(item.group_id, item.error_code) for item in response.results]


@contextmanager
def coordinators_down(full: Serving) -> Iterator[None]:
    """Every offsets partition was started, and none is available now."""
    controller = full.controller
    running, start = dict(controller.offsets), controller.start_coordinator
    controller.offsets, controller.start_coordinator = dict.fromkeys(range(3)), {}
    full.follow(controller.view())
    try:
        yield
    finally:
        controller.offsets, controller.start_coordinator = running, start
        full.follow(controller.view())

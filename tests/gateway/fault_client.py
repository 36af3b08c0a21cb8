"""Setup for tests of faults: a joined member, commits and committed offsets, the fault API."""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import Topic
from tests.gateway.group_client import OFFSET_COMMIT, Fresh, Member, find
from tests.gateway.serving import Client, Serving

PROPERTIES = {
    "fault.injection.enable": "true",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
COMMIT_VERSION = 9


def joined(full: Serving, group: str, client_id: str = "a client", **member: Any) -> Member:
    """Join as the only member of a group, which is stable then."""
    find(full.client, 4, group)
    one = Member(full.connect(client_id), group, **member)
    assert one.join().error_code is ErrorCode.none
    one.sync({one.id: b"mine"})
    return one


def commit_body(group: str, topic: Topic, offset: int, partition: int = 0) -> dict[str, Any]:
    """Return the body of a commit without membership."""
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": partition, "committed_offset": offset, "committed_metadata": None},
                ],
            }
        ],
    }


def request_commit(client: Client, group: str, topic: Topic, offset: int) -> None:
    client.request(OFFSET_COMMIT, COMMIT_VERSION, commit_body(group, topic, offset))


def answered_commit(client: Client) -> ErrorCode:
    response = client.response(OFFSET_COMMIT, COMMIT_VERSION)
    error: ErrorCode = response.topics[0].partitions[0].error_code
    return error


def committed(full: Serving, group: str, topic: Topic) -> int:
    """Return the committed offset; -1 if there is none."""
    with full.connect("who looks") as client:
        ((_, offset, _, error),) = Member(client, group, version=8).committed([topic])
    assert error is ErrorCode.none
    return int(offset)


def new_group(full: Serving, fresh: Fresh) -> str:
    """Return a group whose coordinator has started."""
    group = fresh("g")
    find(full.client, 4, group)
    return group

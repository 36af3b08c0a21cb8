"""Pipelined requests of one connection: each sees the changes of the previous one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.api import APIS, Call, Reply
from tests.gateway.config_requests import INCREMENTAL, SET, TOPIC
from tests.gateway.group_client import OFFSET_COMMIT, Fresh, Member, find
from tests.gateway.serving import Serving

METADATA, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS, CREATE_PARTITIONS = 3, 19, 20, 32, 37
LIST_GROUPS, LIST_TRANSACTIONS = 16, 66
NAME = "pipelined"

RESOURCE = {"resource_type": TOPIC, "resource_name": NAME}
RETENTION = {"name": "retention.ms", "config_operation": SET, "value": "777000"}
NEW = {"name": NAME, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
NOW, TIMEOUT = {"validate_only": False}, {"timeout": 20_000}
LOOK: tuple[int, int, dict[str, Any]] = (
    METADATA,
    9,
    {
        "topics": [{"name": NAME, "topic_id": None}],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    },
)
DESCRIBED = {"include_synonyms": False, "include_documentation": False}
REQUESTS: list[tuple[int, int, dict[str, Any]]] = [
    (CREATE_TOPICS, 7, {"topics": [NEW], **TIMEOUT, **NOW}),
    LOOK,
    (CREATE_PARTITIONS, 3, {"topics": [{"name": NAME, "count": 3, "assignments": None}], **TIMEOUT, **NOW}),
    LOOK,
    (INCREMENTAL, 1, {"resources": [{**RESOURCE, "configs": [RETENTION]}], **NOW}),
    (DESCRIBE_CONFIGS, 4, {"resources": [{**RESOURCE, "configuration_keys": ["retention.ms"]}], **DESCRIBED}),
    (DELETE_TOPICS, 5, {"topic_names": [NAME], **TIMEOUT}),
    LOOK,
]


def test_what_follows_a_change_finds_it(served: Serving) -> None:
    for request in REQUESTS:
        served.client.request(*request)
    responses = [served.client.response(key, version) for key, version, _ in REQUESTS]
    _, created, _, grown, _, described, _, deleted = responses
    assert [len(each.topics[0].partitions) for each in (created, grown)] == [2, 3]
    assert [config.value for config in described.results[0].configs] == ["777000"]
    assert deleted.topics[0].error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize(("key", "version"), [(LIST_GROUPS, 3), (LIST_TRANSACTIONS, 0)])
def test_one_request_at_a_time_that_many_actors_serve(
    full: Serving, monkeypatch: pytest.MonkeyPatch, key: int, version: int
) -> None:
    handler, most, now = APIS[key].handler, 0, 0

    async def counted(call: Call) -> Reply | None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        try:
            return await handler(call)
        finally:
            now -= 1

    monkeypatch.setitem(APIS, key, replace(APIS[key], handler=counted))
    body: dict[str, Any] = {"states_filter": [], "state_filters": [], "producer_id_filters": []}
    for _ in range(4):
        full.client.request(key, version, body)
    for _ in range(4):
        assert full.client.response(key, version).error_code is ErrorCode.none
    assert most == 1


@pytest.mark.parametrize("unknown", [0, 1, 2])
def test_no_commit_overtakes_an_earlier_one(full: Serving, fresh: Fresh, unknown: int) -> None:
    """A commit of a topic that does not exist is served by a task, the others are forwarded at once."""
    group, topic = fresh("g"), full.create(fresh("t"))
    find(full.client, 4, group)
    for number in range(3):
        names = [topic.name, "unknown"] if number == unknown else [topic.name]
        offset = {"partition_index": 0, "committed_offset": number, "committed_metadata": ""}
        topics = [{"name": name, "partitions": [offset]} for name in names]
        body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        full.client.request(OFFSET_COMMIT, 9, {**body, "topics": topics})
    for number in range(3):
        response = full.client.response(OFFSET_COMMIT, 9)
        assert len(response.topics) == (2 if number == unknown else 1)
    assert Member(full.client, group, 8).committed([topic]) == [(topic.name, 2, "", ErrorCode.none)]

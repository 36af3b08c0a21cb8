"""Trail of a gateway after real requests."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from muster.gateway.administration.requests import READERS
from muster.gateway.administration.trail import Trail
from muster.gateway.listener.api import APIS
from muster.gateway.security.authorization.authorizer import Authorizer
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.serving import Client, Serving
from tests.zookeeper_fixture import eventually

PROPERTIES = {"fault.injection.enable": "true"}
CREATE, DELETE, ALTER, DELETE_GROUPS, LEAVE, DESCRIBE, ALTER_QUOTAS, WRITE_TXN_MARKERS = 19, 20, 44, 42, 13, 15, 49, 27
SECRET = "a config value that must not be kept"


@pytest.fixture
def rows(full: Serving) -> Iterator[list[Any]]:
    found: list[Any] = []
    full.gateway.trail = Trail(found.append, lambda: 5, 1)
    yield found
    full.gateway.trail = None


def _create(client: Client, *topics: str, validate_only: bool = False) -> None:
    wanted = [
        {"name": topic, "num_partitions": 1, "replication_factor": -1, "assignments": [], "configs": []}
        for topic in topics
    ]
    client.exchange(CREATE, 7, {"topics": wanted, "timeout": 10_000, "validate_only": validate_only})


def _seen(rows: list[Any]) -> list[tuple[str, str, str | None, str]]:
    return [(row["api"], row["resource_type"], row["resource"], row["error"]) for row in rows]


def test_readers_are_of_served_apis_by_their_names() -> None:
    for key, (name, _) in READERS.items():
        assert key not in APIS or APIS[key].name == name


def test_reassignments(full: Serving, fresh: Fresh, rows: list[Any]) -> None:
    topic = full.create(fresh("t"), 2)
    items = [{"partition_index": index, "replicas": [1, 2]} for index in range(3)]
    topics = [{"name": topic.name, "partitions": items}]
    full.exchange(45, 1, {"timeout": 10_000, "allow_replication_factor_change": True, "topics": topics})
    assert [(row["resource"], row["error"], row["detail"]) for row in rows] == [
        (topic.name, "NONE", "2 partitions"),
        (topic.name, "UNKNOWN_TOPIC_OR_PARTITION", "1 partitions"),
    ]


def test_topics_and_configs(full: Serving, fresh: Fresh, rows: list[Any]) -> None:
    topic = fresh("t")
    _create(full.client, topic, "not/valid")
    _create(full.client, fresh("only-validated"), validate_only=True)
    config = {"name": "retention.ms", "config_operation": 0, "value": SECRET}
    resource = {"resource_type": 2, "resource_name": topic, "configs": [config]}
    full.client.exchange(ALTER, 1, {"resources": [resource], "validate_only": False})
    full.client.exchange(DELETE, 6, {"topics": [{"name": topic, "topic_id": None}], "timeout": 10_000})
    assert _seen(rows) == [
        ("CreateTopics", "TOPIC", topic, "NONE"),
        ("CreateTopics", "TOPIC", "not/valid", "INVALID_TOPIC_EXCEPTION"),
        ("IncrementalAlterConfigs", "TOPIC", topic, "INVALID_CONFIG"),
        ("DeleteTopics", "TOPIC", topic, "NONE"),
    ]
    assert {(row["principal"], row["host"], row["client_id"], row["door"]) for row in rows} == {
        ("User:ANONYMOUS", "127.0.0.1", "a client", "kafka")
    }
    assert rows[2]["detail"] == "retention.ms"
    assert SECRET not in repr(rows)


def test_refused_attempts(full: Serving, fresh: Fresh, rows: list[Any]) -> None:
    full.gateway.authorizer = Authorizer((), (), allow_everyone=False)
    try:
        _create(full.client, "forbidden")
        full.client.exchange(DELETE_GROUPS, 2, {"groups_names": ["forbidden"]})
    finally:
        full.gateway.authorizer = None
    assert _seen(rows) == [
        ("CreateTopics", "TOPIC", "forbidden", "TOPIC_AUTHORIZATION_FAILED"),
        ("DeleteGroups", "GROUP", "forbidden", "GROUP_AUTHORIZATION_FAILED"),
    ]


def test_offsets_that_are_reset_and_members_that_are_removed_but_not_those_of_members(
    full: Serving, fresh: Fresh, rows: list[Any]
) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    find(full.client, 4, group)
    Member(full.connect("admin"), group).commit((topic, 0, 5))
    assert [(*each, row["detail"]) for each, row in zip(_seen(rows), rows, strict=True)] == [
        ("OffsetCommit", "GROUP", group, "NONE", f"{topic.name}, 1 partitions")
    ]
    rows.clear()
    member = Member(full.connect("consumer"), group)
    member.join()
    member.sync({member.id: b""})
    member.commit((topic, 0, 6))
    assert rows == [], "what a member does is not administration"
    admin = full.connect("admin")
    admin.exchange(LEAVE, 5, {"group_id": group, "members": [{"member_id": member.id, "group_instance_id": None}]})
    assert [(row["client_id"], row["resource"], row["error"], row["detail"]) for row in rows] == [
        ("admin", group, "NONE", f"member {member.id}")
    ]


def test_a_change_whose_client_leaves_at_once(
    full: Serving, fresh: Fresh, rows: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is made all the same, and its maker cannot keep it out of the trail."""
    topic, begun, may_end = fresh("t"), threading.Event(), threading.Event()
    create = full.controller.create_topics

    async def held(*arguments: Any) -> Any:
        begun.set()
        await asyncio.to_thread(may_end.wait, 30)
        return await create(*arguments)

    monkeypatch.setattr(full.controller, "create_topics", held)
    client = full.connect("hasty")
    wanted = {"name": topic, "num_partitions": 1, "replication_factor": -1, "assignments": [], "configs": []}
    client.request(CREATE, 7, {"topics": [wanted], "timeout": 10_000, "validate_only": False})
    assert begun.wait(30)
    before = len(full.gateway.connections)
    client.reset()
    eventually(lambda: len(full.gateway.connections) < before, "the connection is gone")
    may_end.set()
    eventually(lambda: rows, "the change is recorded")
    assert [(row["client_id"], row["resource"], row["error"]) for row in rows] == [("hasty", topic, "NONE")]


def test_a_member_that_leaves_its_group_and_closes_at_once(full: Serving, fresh: Fresh, rows: list[Any]) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    consumer = full.connect("consumer")
    member = Member(consumer, group)
    member.join()
    member.sync({member.id: b""})
    consumer.request(LEAVE, 5, {"group_id": group, "members": [{"member_id": member.id, "group_instance_id": None}]})
    consumer.close()

    def state() -> str:
        described = full.client.exchange(DESCRIBE, 5, {"groups": [group], "include_authorized_operations": False})
        return str(described.groups[0].group_state)

    eventually(lambda: state() == "Empty", "the member has left")
    assert rows == []


def test_faults_over_http(full: Serving, rows: list[Any]) -> None:
    fault = {"action": "drop", "api": "Heartbeat"}

    async def send(method: str, path: str, body: Any = None) -> int:
        from aiohttp import ClientSession

        async with ClientSession() as session, session.request(method, full.http_url + path, json=body) as response:
            return response.status

    _ = full.http_url
    assert full.run(send("POST", "/v1/faults", fault)) == 201
    assert full.run(send("DELETE", "/v1/faults/f-none")) == 404
    assert full.run(send("DELETE", "/v1/faults")) == 200
    assert [(row["api"], row["resource"], row["error"], row["door"]) for row in rows] == [
        ("POST /v1/faults", None, "201", "http"),
        ("DELETE /v1/faults/{id}", "f-none", "404", "http"),
        ("DELETE /v1/faults", None, "200", "http"),
    ]
    assert "Heartbeat" in rows[0]["detail"]


def test_a_change_is_recorded_before_anything_else_of_the_client_is_awaited(full: Serving, rows: list[Any]) -> None:
    """A body that no one reads never arrives; then the client leaves."""
    request = b"DELETE /v1/faults HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(full.http_url.rpartition(":")[2])), 30) as client:
        client.sendall(request)
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    assert [(row["api"], row["error"], row["detail"]) for row in rows] == [("DELETE /v1/faults", "200", None)]


def test_what_ends_without_a_response_is_recorded(
    full: Serving, rows: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_: object) -> Any:
        raise RuntimeError("planted")

    _ = full.http_url
    monkeypatch.setattr(full.gateway.faults.controller, "clear", fails)  # type: ignore[union-attr]
    request = b"DELETE /v1/faults HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(full.http_url.rpartition(":")[2])), 30) as client:
        client.sendall(request)
        assert client.recv(100).startswith(b"HTTP/1.1 500")
    assert [(row["api"], row["error"]) for row in rows] == [("DELETE /v1/faults", "500")]


def test_a_transaction_that_is_aborted_by_others(full: Serving, fresh: Fresh, rows: list[Any]) -> None:
    """kafka-transactions aborts one that hangs like this."""
    topic = full.create(fresh("t"))
    marker = {
        "producer_id": 7,
        "producer_epoch": 0,
        "transaction_result": False,
        "topics": [{"name": topic.name, "partition_indexes": [0, 99]}],
        "coordinator_epoch": 0,
    }
    full.client.exchange(WRITE_TXN_MARKERS, 1, {"markers": [marker]})
    assert _seen(rows) == [
        ("WriteTxnMarkers", "TOPIC", topic.name, "NONE"),
        ("WriteTxnMarkers", "TOPIC", topic.name, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert rows[0]["detail"] == "transaction of producer 7 aborted, 1 partitions"


def test_a_reader_that_fails_costs_no_client_its_response(
    full: Serving, fresh: Fresh, rows: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Any:
        raise KeyError("planted")

    monkeypatch.setitem(READERS, CREATE, ("CreateTopics", fails))
    _create(full.client, fresh("t"))
    assert rows == []


def test_quotas_have_all_their_digits(full: Serving, rows: list[Any]) -> None:
    ops = [{"key": "producer_byte_rate", "value": 10485761.0, "remove": False}]
    entry = {"entity": [{"entity_type": "user", "entity_name": "ann"}], "ops": ops}
    full.client.exchange(ALTER_QUOTAS, 1, {"entries": [entry], "validate_only": False})
    assert [row["detail"] for row in rows] == ["producer_byte_rate=10485761"]

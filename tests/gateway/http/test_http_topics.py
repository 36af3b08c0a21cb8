"""``GET /v1/topics`` and ``/v1/topics/describe``, over real logs and coordinators."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from muster.gateway.lag import shared
from muster.gateway.lag.groups import GroupLag, PartitionLag, WithoutCommit
from muster.gateway.lag.shared import readers_of
from muster.gateway.security.authorization.authorizer import Authorizer
from muster.placement.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPattern,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from muster.placement.view import Topic
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.http.test_http_lag import assignment, produce
from tests.gateway.serving import Serving

PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(autouse=True)
def always_new(full: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no response be that of an earlier request."""
    monkeypatch.setattr(shared, "FRESH_S", 0.0)
    yield
    full.gateway.authorizer = None


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    """Return a topic with 3 and 4 messages in two of its three partitions."""
    topic = full.create(fresh("t"), 3, retention_ms="-1")
    produce(full, topic, 0, 3)
    produce(full, topic, 1, 4)
    return topic


def get(full: Serving, path: str) -> dict[str, Any]:
    status, text = full.http(path)
    assert status == 200, text
    found: dict[str, Any] = json.loads(text)
    return found


def listed(full: Serving, *topics: Topic) -> list[dict[str, Any]]:
    names = {each.name for each in topics}
    return [row for row in get(full, "/v1/topics?limit=1000")["topics"] if row["topic"] in names]


def described(full: Serving, topic: Topic) -> dict[str, Any]:
    return get(full, f"/v1/topics/describe?topic={quote(topic.name)}")


def test_messages_sizes_and_readers(full: Serving, topic: Topic, fresh: Fresh) -> None:
    done, behind, newcomer = (fresh(kind) for kind in ("done", "behind", "new"))
    find(full.client, 4, done, behind, newcomer)
    Member(full.connect(), done).commit((topic, 0, 3), (topic, 1, 4))
    Member(full.connect(), behind).commit((topic, 0, 1))
    member = Member(full.connect(), newcomer)
    member.join()
    member.sync({member.id: assignment(topic, 1, 2)})

    (row,) = listed(full, topic)
    assert row.pop("size_bytes") > 0
    expected = {"topic": topic.name, "topic_id": str(topic.topic_id), "internal": False}
    assert row == {**expected, "partitions": 3, "messages": 7, "groups": 3, "behind": 1}

    found = described(full, topic)
    assert (found["topic"], found["config"], found["partial"]) == (topic.name, {"retention.ms": "-1"}, False)
    rows = found["partitions"]
    assert [[each[name] for name in ("start_offset", "end_offset", "messages")] for each in rows] == [
        [0, 3, 3],
        [0, 4, 4],
        [0, 0, 0],
    ]
    assert [each["size_bytes"] > 0 for each in rows] == [True, True, False]
    assert {each["log"] for each in rows} == {"log-0", "log-1"}
    readers = {each["group"]: each for each in found["groups"]}
    assert [next(iter(readers)), found["groups_total"]] == [behind, 3]
    assert readers[behind].pop("lag_s") >= 0
    assert readers[behind] == {"group": behind, "state": "Empty", "members": 0, "partitions": 1, "lag": 2}
    assert (readers[done]["lag"], readers[done]["partitions"]) == (0, 2)
    assert (readers[newcomer]["members"], readers[newcomer]["partitions"]) == (1, 2)


def test_internal_topics_count_what_was_used(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    Member(full.client, group).commit((full.create(fresh("t")), 0, 0))
    offsets = full.gateway.view.topics["__consumer_offsets"]
    (row,) = listed(full, offsets)
    assert (row["internal"], row["partitions"]) == (True, 3)
    assert row["messages"] >= 1
    found = described(full, offsets)
    assert found["partial"] is False
    assert found["partitions"][full.gateway.partition_of(group)]["end_offset"] >= 1


def test_topics_come_in_pages_by_name(full: Serving, topic: Topic) -> None:
    whole = get(full, "/v1/topics?limit=1000")
    names = [row["topic"] for row in whole["topics"]]
    assert names == sorted(full.gateway.view.topics)
    page = get(full, "/v1/topics?limit=1&offset=1")
    assert ([row["topic"] for row in page["topics"]], page["total"]) == (names[1:2], len(names))
    for wrong in ("limit=0", "limit=1001", "offset=x"):
        assert full.http(f"/v1/topics?{wrong}")[0] == 400


def test_a_topic_that_does_not_exist(full: Serving) -> None:
    assert full.http("/v1/topics/describe?topic=none") == (404, json.dumps({"error": "unknown topic none"}))
    assert full.http("/v1/topics/describe")[0] == 400


def test_a_log_that_does_not_respond_is_named(full: Serving, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    assert full.actors is not None
    index = full.gateway.view.log_of(topic, 0)
    monkeypatch.setitem(full.actors.log_servers[index].query_handlers, "append_times", lambda query: {"error": "no"})
    found = described(full, topic)
    assert (found["partial"], found["missing_actors"]) == (True, [f"log-{index}"])
    assert [each["end_offset"] is None for each in found["partitions"]] == [True, False, True]
    (row,) = listed(full, topic)
    assert row["messages"] == 4


def _acl(operation: AclOperation, kind: AclResourceType, name: str) -> Acl:
    pattern = AclPattern(kind, name, AclPatternType.LITERAL)
    return Acl(pattern, "User:ANONYMOUS", "*", operation, AclPermission.ALLOW)


def test_rights_decide_on_topics_groups_configs_and_sizes(full: Serving, topic: Topic, fresh: Fresh) -> None:
    secret, group, hidden = full.create(fresh("secret")), fresh("g"), fresh("hidden")
    find(full.client, 4, group, hidden)
    for each in (group, hidden):
        Member(full.connect(), each).commit((topic, 0, 1))
    acls = [
        _acl(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name),
        _acl(AclOperation.DESCRIBE, AclResourceType.GROUP, group),
    ]
    full.gateway.authorizer = Authorizer(acls, set(), allow_everyone=False)
    whole = get(full, "/v1/topics")
    assert [(row["topic"], row["groups"], row["size_bytes"]) for row in whole["topics"]] == [(topic.name, 1, None)]
    assert whole["total"] == 1
    assert full.http(f"/v1/topics/describe?topic={secret.name}")[0] == 403
    found = described(full, topic)
    assert ([each["group"] for each in found["groups"]], found["config"]) == ([group], None)
    assert found["partitions"][0]["size_bytes"] is None
    acls += [
        _acl(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, topic.name),
        _acl(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME),
    ]
    full.gateway.authorizer = Authorizer(acls, set(), allow_everyone=False)
    found = described(full, topic)
    assert found["config"] == {"retention.ms": "-1"}
    assert found["partitions"][0]["size_bytes"] > 0
    assert {each["group"] for each in found["groups"]} == {group, hidden}


def test_readers_by_topic() -> None:
    rows = [PartitionLag("a", 0, 1, None), PartitionLag("a", 1, 0, 0.0), PartitionLag("b", 0, None, None)]
    without = [WithoutCommit("b", 1, 3), WithoutCommit("c", 0, 0)]
    group = GroupLag("g", "Stable", "classic", "consumer", 1, rows, without)
    found = asyncio.run(readers_of([group]))
    sizes = {topic: (len(each.partitions), len(each.without_commit)) for topic, (each,) in found.items()}
    assert sizes == {"a": (2, 0), "b": (1, 1), "c": (0, 1)}
    assert found["b"][0].total.messages_without_commit == 3

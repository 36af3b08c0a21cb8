"""GET /v1/groups/lag over real coordinators and logs."""

from __future__ import annotations

import json
import struct
from typing import Any
from urllib.parse import quote

import pytest

from muster.actors.runtime.process import now_ms
from muster.gateway.lag.groups import PartitionLag, lags_of
from muster.gateway.lag.partitions import End, Owner, lag_s, rows
from muster.placement.view import UNDO_PREFIX, Topic
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.serving import Serving
from tests.log.support import client_batch

PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}
PRODUCE = 0


def produce(full: Serving, topic: Topic, partition: int, count: int) -> None:
    """One batch with old timestamps."""
    records = client_batch(count, first_ms=1)
    data = [{"topic_id": topic.topic_id, "partition_data": [{"index": partition, "records": records}]}]
    response = full.exchange(PRODUCE, 13, {"acks": -1, "timeout": 1000, "topic_data": data})
    assert response.responses[0].partition_responses[0].error_code == 0


def assignment(topic: Topic, *partitions: int) -> bytes:
    name = topic.name.encode()
    listed = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return struct.pack(f">hih{len(name)}s", 0, 1, len(name), name) + listed + struct.pack(">i", -1)


def lag_of(full: Serving, group: str) -> tuple[int, dict[str, Any]]:
    status, text = full.http(f"/v1/groups/lag?group={quote(group, safe='&=')}")
    body: dict[str, Any] = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    return status, body


def test_lag_in_messages_and_in_seconds_since_the_append(full: Serving, fresh: Fresh) -> None:
    topic, group = full.create(fresh("t"), 4), fresh("g")
    find(full.client, 4, group)
    produce(full, topic, 0, 3)
    second_ms = [now_ms()]
    produce(full, topic, 0, 4)
    second_ms.append(now_ms())
    produce(full, topic, 0, 5)
    produce(full, topic, 1, 2)
    member = Member(full.connect("reader"), group)
    member.commit((topic, 0, 5), (topic, 1, 2), (topic, 3, 9))
    member.join()
    member.sync({member.id: assignment(topic, 0, 2)})
    sent_ms = [now_ms()]
    status, body = lag_of(full, group)
    sent_ms.append(now_ms())
    assert (status, body["group"], body["state"]) == (200, group, "Stable")
    behind_s = body["partitions"][0].pop("lag_s")
    assert (body["lag"], body["lag_s"], body["behind"]) == (7, behind_s, 1)
    assert sent_ms[0] - second_ms[1] <= round(behind_s * 1000) <= sent_ms[1] - second_ms[0]
    mine = {"member_id": member.id, "client_id": "reader", "host": "127.0.0.1"}
    nobody = dict.fromkeys(mine)
    expected: list[dict[str, object]] = [
        {"partition": 0, "committed_offset": 5, "end_offset": 12, "lag": 7, **mine},
        {"partition": 1, "committed_offset": 2, "end_offset": 2, "lag": 0, "lag_s": 0.0, **nobody},
        {"partition": 2, "committed_offset": None, "end_offset": 0, "lag": None, "lag_s": None, **mine},
        {"partition": 3, "committed_offset": 9, "end_offset": 0, "lag": -9, "lag_s": None, **nobody},
    ]
    assert body["partitions"] == [{"topic": topic.name, **row, "messages_without_commit": 0} for row in expected]


def without_commit(found: dict[str, Any]) -> tuple[Any, ...]:
    names = ("lag", "lag_s", "behind", "without_commit", "messages_without_commit", "unread")
    return tuple(found[name] for name in names)


def test_partitions_of_members_without_a_commit_are_counted_apart(full: Serving, fresh: Fresh) -> None:
    """A consumer ends at its first message, another has not committed in one partition."""
    topic, newcomers, billing = full.create(fresh("t"), 4), fresh("new"), fresh("billing")
    find(full.client, 4, newcomers, billing)
    for partition, count in ((0, 5), (1, 2), (3, 4)):
        produce(full, topic, partition, count)
    for group, offsets in ((newcomers, ()), (billing, ((topic, 0, 5),))):
        member = Member(full.connect(), group)
        member.join()
        member.sync({member.id: assignment(topic, 0, 1, 2)})
        member.commit(*offsets)
        _, body = lag_of(full, group)
        none_of = 0 if offsets else 5
        assert without_commit(body) == (0, 0.0 if offsets else None, 0, 1 if offsets else 2, 2 + none_of, 2 + none_of)
        assert [row["messages_without_commit"] for row in body["partitions"]] == [none_of, 2, 0]
        of_all = lags_until(full, group)
        assert without_commit(of_all[group]) == without_commit(body)
    late = fresh("late")
    find(full.client, 4, late)
    Member(full.client, late).commit((topic, 3, 0))
    found = [each for each in lags_until(full, late) if each in (newcomers, billing, late)]
    assert found == [newcomers, billing, late]
    by_age = [row["group"] for row in all_lags(full, "?sort=lag_s&limit=10000")[1]["groups"]]
    assert [each for each in by_age if each in (newcomers, billing, late)] == [late, billing, newcomers]

    member.leave()
    gone = lag_of(full, billing)[1]
    assert without_commit(gone) == (0, 0.0, 0, 0, 0, 0)


def test_a_group_that_reads_the_offsets_topic_and_one_that_reads_nothing(full: Serving, fresh: Fresh) -> None:
    offsets = full.gateway.view.topics["__consumer_offsets"]
    group, idle = fresh("g"), fresh("g")
    find(full.client, 4, group, idle)
    Member(full.client, group).commit((offsets, full.gateway.partition_of(group), 0))
    _, body = lag_of(full, group)
    [row] = body["partitions"]
    assert row["lag"] == row["end_offset"] >= 1
    assert row["lag_s"] is None
    member = Member(full.connect(), idle)
    member.join()
    member.sync({})
    sums = {"lag": None, "lag_s": None, "behind": 0, "without_commit": 0, "messages_without_commit": 0, "unread": None}
    assert lag_of(full, idle) == (200, {"group": idle, "state": "Stable", **sums, "partitions": []})


def test_a_log_that_does_not_respond_leaves_its_partitions_without_an_end(
    full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = full.create(fresh("t"), 1), fresh("g")
    find(full.client, 4, group)
    produce(full, topic, 0, 3)
    Member(full.client, group).commit((topic, 0, 1))
    assert full.actors is not None
    server = full.actors.log_servers[full.gateway.view.log_of(topic, 0)]
    unknown = {"end_offset": None, "lag": None, "lag_s": None, "committed_offset": 1}
    for broken in (lambda query: {"error": "no"}, lambda query: full.gateway.until_view(lambda _: False, 30)):
        monkeypatch.setitem(server.query_handlers, "append_times", broken)
        monkeypatch.setattr("muster.gateway.http.lag.REQUEST_TIMEOUT_S", 0.2)
        status, body = lag_of(full, group)
        assert status == 200
        assert body["partitions"][0].items() >= unknown.items()


def all_lags(full: Serving, query: str = "") -> tuple[int, dict[str, Any]]:
    status, text = full.http(f"/v1/groups/lag{query}")
    return status, json.loads(text)


def lags_until(full: Serving, *groups: str) -> dict[str, dict[str, Any]]:
    """All groups, once the response has these; it may be a second old."""
    while True:
        found = {row["group"]: row for row in all_lags(full, "?limit=10000")[1]["groups"]}
        if found.keys() >= {*groups}:
            return found


def test_all_groups_those_that_are_most_behind_first(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 2)
    old, new, done, idle = (fresh(name) for name in ("old", "new", "done", "idle"))
    find(full.client, 4, old, new, done, idle)
    produce(full, topic, 0, 3)
    produced_ms = now_ms()
    while now_ms() == produced_ms:
        pass
    produce(full, topic, 0, 30)
    produce(full, topic, 1, 1)
    Member(full.client, old).commit((topic, 0, 2), (topic, 1, 1))
    Member(full.client, new).commit((topic, 0, 3), (topic, 1, 0))
    Member(full.client, done).commit((topic, 0, 33), (topic, 1, 99))
    member = Member(full.connect(), idle)
    member.join()
    member.sync({})
    Member(full.client, f"{UNDO_PREFIX}{old}").commit((topic, 0, 0))

    found = lags_until(full, old, new, done, idle)
    mine = [found[group] for group in (old, new, done, idle)]
    assert [[row[name] for name in ("lag", "behind", "partitions", "members", "state")] for row in mine] == [
        [31, 1, 2, 0, "Empty"],
        [31, 2, 2, 0, "Empty"],
        [0, 0, 2, 0, "Empty"],
        [None, 0, 0, 1, "Stable"],
    ]
    assert mine[0]["lag_s"] > mine[1]["lag_s"] > mine[2]["lag_s"] == 0.0
    assert mine[3]["lag_s"] is None
    assert f"{UNDO_PREFIX}{old}" not in found
    assert [group for group in found if group in (old, new, done, idle)] == [old, new, done, idle]
    order = list(found)

    status, page = all_lags(full, "?offset=1&limit=2")
    assert (status, page["total"], page["partial"]) == (200, len(order), False)
    assert [row["group"] for row in page["groups"]] == order[1:3]
    by_name = [row["group"] for row in all_lags(full, "?sort=group&limit=10000")[1]["groups"]]
    assert by_name == sorted(order)
    assert all_lags(full, "?sort=members&limit=1")[1]["groups"][0]["members"] >= 1
    for wrong in ("sort=age", "limit=0", "limit=x", "offset=-1"):
        assert all_lags(full, f"?{wrong}")[0] == 400


def test_what_does_not_respond_is_named(full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, group = full.create(fresh("t"), 1), fresh("g")
    find(full.client, 4, group)
    produce(full, topic, 0, 3)
    Member(full.client, group).commit((topic, 0, 1))
    assert full.actors is not None
    index = full.gateway.view.log_of(topic, 0)
    monkeypatch.setitem(full.actors.log_servers[index].query_handlers, "append_times", lambda query: {"error": "no"})
    lags = full.run(lags_of(full.gateway, 1.0, [full.gateway.partition_of(group)]))
    [mine] = [each for each in lags.groups if each.group == group]
    assert mine.partitions == [PartitionLag(topic.name, 0, None, None)]
    assert lags.silent == [f"log-{index}"]
    partition = full.gateway.partition_of(group)
    handlers = full.actors.offsets[partition].query_handlers
    monkeypatch.setitem(handlers, "committed", lambda query: {"error": "no"})
    assert full.run(lags_of(full.gateway, 1.0, [partition])) == ([], [partition], [])


def test_the_lag_in_messages_does_not_wait_for_append_times(
    full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = full.create(fresh("t"), 1), fresh("g")
    find(full.client, 4, group)
    produce(full, topic, 0, 3)
    Member(full.client, group).commit((topic, 0, 1))
    assert full.actors is not None
    handlers = full.actors.log_servers[full.gateway.view.log_of(topic, 0)].query_handlers
    respond = handlers["append_times"]

    def slow(query: dict[str, Any]) -> Any:
        looks_up = any(offset >= 0 for _, _, offset in query["partitions"])
        return full.gateway.until_view(lambda _: False, 30) if looks_up else respond(query)

    monkeypatch.setitem(handlers, "append_times", slow)
    lags = full.run(lags_of(full.gateway, 0.2, [full.gateway.partition_of(group)]))
    [mine] = [each for each in lags.groups if each.group == group]
    assert mine.partitions == [PartitionLag(topic.name, 0, 2, None)]
    assert lags.silent


def test_without_a_known_group_there_is_no_lag(full: Serving, fresh: Fresh) -> None:
    group = fresh("nobody's")
    find(full.client, 4, group)
    assert lag_of(full, "") == (400, {"error": "the parameter group is empty"})
    assert lag_of(full, group) == (404, {"error": f"unknown group {group}"})


def test_topics_that_a_group_has_not_begun_to_read(full: Serving, fresh: Fresh) -> None:
    """A group that does not exist, and one that has committed in one of three partitions and has no members."""
    topic, other, billing, nobodys = full.create(fresh("t"), 3), full.create(fresh("t"), 1), fresh("g"), fresh("g")
    find(full.client, 4, billing, nobodys)
    produce(full, topic, 0, 3)
    produce(full, topic, 1, 4)
    Member(full.client, billing).commit((topic, 0, 2))
    status, body = lag_of(full, f"{nobodys}&topic={topic.name}&topic={other.name}&topic=none")
    assert (status, body["state"], without_commit(body)) == (200, "Dead", (0, None, 0, 2, 7, 7))
    assert [(row["topic"], row["partition"], row["messages_without_commit"]) for row in body["partitions"]] == sorted(
        [(topic.name, 0, 3), (topic.name, 1, 4), (topic.name, 2, 0), (other.name, 0, 0)]
    )
    assert lag_of(full, f"{nobodys}&topic=none")[0] == 404
    _, body = lag_of(full, f"{billing}&topic={topic.name}")
    assert without_commit(body)[:1] + without_commit(body)[2:] == (1, 1, 1, 4, 5)
    assert [row["committed_offset"] for row in body["partitions"]] == [2, None, None]


@pytest.mark.parametrize(
    ("lag", "end", "expected"),
    [
        (0, None, 0.0),
        (0, End(5), 0.0),
        (2, End(5, 1_000, 3_500), 2.5),
        (2, End(5, 3_500, 1_000), 0.0),  # the clock was set back
        (2, End(5, None, 3_500), None),
        (-2, End(5, 1_000, 3_500), None),
        (None, End(5, 1_000, 3_500), None),
    ],
)
def test_seconds(lag: int | None, end: End | None, expected: float | None) -> None:
    assert lag_s(lag, end) == expected


def test_every_partition_that_is_committed_or_assigned_has_one_row_in_order() -> None:
    owner = Owner("m", "c", "/h")
    found = rows({("b", 10): 1, ("b", 9): 1}, {}, {("a", 3): owner, ("b", 9): owner}, {})
    assert [(row["topic"], row["partition"], row["member_id"]) for row in found] == [
        ("a", 3, "m"),
        ("b", 9, "m"),
        ("b", 10, None),
    ]

"""Groups described and changed over HTTP, with real coordinators and members."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession

from muster.gateway.security.authorization.authorizer import Authorizer
from muster.placement.view import Topic
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.serving import Serving

Post = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def post(full: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    """Send JSON while changes are on."""
    for name in ("started_with", "config"):
        on = getattr(full.gateway, name).model_copy(update={"http_changes_enable": True})
        monkeypatch.setattr(full.gateway, name, on)

    def post(path: str, **body: Any) -> tuple[int, dict[str, Any]]:
        return sent(full, path, body)

    yield post
    full.gateway.authorizer = None


def sent(full: Serving, path: str, body: Any, content_type: str = "application/json") -> tuple[int, dict[str, Any]]:
    url = f"{full.http_url}{path}"

    async def send() -> tuple[int, dict[str, Any]]:
        headers, data = {"Content-Type": content_type}, json.dumps(body)
        async with ClientSession() as session, session.post(url, headers=headers, data=data) as response:
            return response.status, await response.json()

    done: tuple[int, dict[str, Any]] = full.run(send())
    return done


def get(full: Serving, path: str) -> tuple[int, dict[str, Any]]:
    status, text = full.http(path)
    return status, json.loads(text)


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    return full.create(fresh("t"), 1)


@pytest.fixture
def group(full: Serving, topic: Topic, fresh: Fresh) -> str:
    """Return a group without members that has committed 5 in partition 0."""
    name = fresh("g <&ü")
    find(full.client, 4, name)
    Member(full.connect("reader"), name).commit((topic, 0, 5))
    return name


def committed(full: Serving, group: str) -> list[int]:
    return [row["committed_offset"] for row in get(full, f"/v1/groups/lag?group={quote(group)}")[1]["partitions"]]


def test_a_reset_is_planned_made_and_undone(full: Serving, topic: Topic, group: str, post: Post) -> None:
    wanted = {"group": group, "to": {"earliest": True}}
    status, planned = post("/v1/groups/reset/plan", **wanted)
    assert status == 200, planned
    assert (planned["executed"], planned["refused"]) == (False, None)
    assert [(row["topic"], row["old_offset"], row["offset"]) for row in planned["changes"]] == [(topic.name, 5, 0)]
    assert committed(full, group) == [5]
    assert post("/v1/groups/reset", **wanted)[0] == 200
    assert committed(full, group) == [0]
    status, undone = post("/v1/groups/reset", group=group, to={"undo": True})
    assert status == 200, undone
    assert undone["executed"]
    assert committed(full, group) == [5]
    assert post("/v1/groups/reset/plan", group=group, to={"undo": True})[0] == 409


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"group": "", "to": {"latest": True}},
        {"group": "g", "to": {}},
        {"group": "g", "to": {"latest": True, "earliest": True}},
        {"group": "g", "to": {"offset": -1}},
        {"group": "g", "to": {"offset": "1"}},
        {"group": "g", "to": {"latest": True}, "topics": ["t:x"]},
        {"group": "g", "to": {"latest": True}, "execute": False},
    ],
)
def test_a_body_that_says_no_reset_is_400(post: Post, body: dict[str, Any]) -> None:
    for path in ("/v1/groups/reset", "/v1/groups/reset/plan"):
        status, response = post(path, **body)
        assert (status, set(response)) == (400, {"error"})


def test_only_json_is_taken(full: Serving, group: str, post: Post) -> None:
    body = {"group": group, "to": {"earliest": True}}
    assert sent(full, "/v1/groups/reset", body, "text/plain")[0] == 415
    assert committed(full, group) == [5]


def test_changes_are_off_by_default(full: Serving, group: str) -> None:
    status, response = sent(full, "/v1/groups/reset", {"group": group, "to": {"earliest": True}})
    assert status == 403
    assert "http.changes.enable=true" in response["error"]
    assert sent(full, "/v1/groups/reset/plan", {"group": group, "to": {"earliest": True}})[0] == 200
    assert committed(full, group) == [5]
    assert get(full, "/v1/cluster")[1]["may_change"] is False


def test_without_the_right_nothing_is_shown_or_changed(full: Serving, group: str, post: Post) -> None:
    full.gateway.authorizer = Authorizer((), set(), allow_everyone=False)
    assert post("/v1/groups/reset", group=group, to={"earliest": True})[0] in (403, 409)
    assert get(full, f"/v1/groups/describe?group={quote(group)}")[0] in (403, 409)
    full.gateway.authorizer = None
    assert committed(full, group) == [5]


def test_a_coordinator_that_does_not_say_when_it_heard_members(
    full: Serving, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older one, during an update."""
    member = Member(full.connect("worker"), group)
    member.join()
    member.sync({member.id: b""})
    assert full.actors is not None
    handlers = full.actors.offsets[full.gateway.partition_of(group)].query_handlers
    monkeypatch.delitem(handlers, "heartbeats")
    status, described = get(full, f"/v1/groups/describe?group={quote(group)}")
    assert (status, [each["heartbeat_age_ms"] for each in described["members"]]) == (200, [None])


def test_a_member_is_described_and_evicted(full: Serving, group: str, post: Post) -> None:
    member = Member(full.connect("worker"), group)
    member.join()
    member.sync({member.id: b""})
    status, described = get(full, f"/v1/groups/describe?group={quote(group)}")
    assert (status, described["state"], described["type"]) == (200, "Stable", "classic")
    (found,) = described["members"]
    assert found["client_id"] == "worker"
    assert 0 <= found["heartbeat_age_ms"] < 60_000
    refused = post("/v1/groups/reset", group=group, to={"earliest": True})
    assert (refused[0], found["member_id"] in refused[1]["error"]) == (409, True)
    assert post("/v1/groups/evict", group=group, member_id="nobody")[0] == 404
    assert post("/v1/groups/evict", group=group, member_id=found["member_id"])[0] == 200
    assert get(full, f"/v1/groups/describe?group={quote(group)}")[1]["members"] == []


def test_an_unknown_group_is_404(full: Serving, post: Post) -> None:
    assert get(full, "/v1/groups/describe?group=nobody")[0] == 404
    assert post("/v1/groups/evict", group="nobody", member_id="m")[0] == 404


def test_the_cluster_and_the_caller(full: Serving) -> None:
    status, found = get(full, "/v1/cluster")
    assert status == 200
    assert found["cluster_id"] == full.gateway.view.cluster_id
    assert [each["id"] for each in found["gateways"]] == [broker.id for broker in full.gateway.view.brokers]
    assert found["principal"] == "User:ANONYMOUS"

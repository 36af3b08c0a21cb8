"""The OpenAPI description: each route is in it, and responds as it says."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from muster.actors.reconciler.counts import RepairCounts
from muster.actors.tables.rebalance_entry import RebalanceEntry
from muster.gateway.http.callers import CHANGES, RIGHTS
from muster.gateway.http.openapi.document import document
from muster.gateway.http.server import gateway_app, start_http
from muster.placement.view import Topic
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.http.test_group_changes import Post, get, post
from tests.gateway.http.test_http_lag import assignment, produce
from tests.gateway.serving import Serving
from tests.tables.rebalances import entry
from tests.zookeeper_fixture import eventually

__all__ = ["post"]
PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}


def problems(method: str, path: str, response: Any) -> list[str]:
    """Return what of a good response is not as described."""
    described = document()["paths"][path][method]["responses"]["200"]
    schema = {**described["content"]["application/json"]["schema"], "components": document()["components"]}
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(response)]


def test_it_is_openapi_3_1(full: Serving) -> None:
    status, described = get(full, "/v1/openapi.json")
    assert (status, described) == (200, document())
    validate(described)


def test_each_route_under_v1_is_described() -> None:
    described = {(method.upper(), path) for path, methods in document()["paths"].items() for method in methods}
    assert described == {(method, path) for method, path in RIGHTS if path.startswith("/v1/")}


def test_the_rights_and_the_property_of_a_route_are_said() -> None:
    for method, path in RIGHTS:
        if path.startswith("/v1/"):
            text = document()["paths"][path][method.lower()]["description"]
            assert RIGHTS[method, path].value in text
            assert ("http.changes.enable=true" in text) == ((method, path) in CHANGES)


def test_no_operation_has_the_id_of_another() -> None:
    ids = [each["operationId"] for methods in document()["paths"].values() for each in methods.values()]
    assert len(ids) == len({*ids})


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    topic = full.create(fresh("t"), 2, retention_ms="-1")
    produce(full, topic, 0, 3)
    return topic


@pytest.fixture
def group(full: Serving, topic: Topic, fresh: Fresh) -> str:
    """Return a group with a member, a committed offset, and a partition without one."""
    name = fresh("g")
    find(full.client, 4, name)
    member = Member(full.connect("reader"), name)
    member.join()
    member.sync({member.id: assignment(topic, 0, 1)})
    member.commit((topic, 0, 1))
    return name


@pytest.fixture
def rebalance(full: Serving, group: str) -> RebalanceEntry:
    """Keep an entry of the journal in which no list is empty."""
    partition = full.gateway.partition_of(group)
    kept = replace(entry(1, group=group), offsets_partition=partition)

    async def keep() -> None:
        assert full.actors is not None
        full.actors.histories[partition].keep(kept)

    full.run(keep())
    return kept


def test_responses_are_as_described(full: Serving, topic: Topic, group: str, rebalance: RebalanceEntry) -> None:
    in_group, in_topic = f"?group={quote(group)}", f"?topic={quote(topic.name)}"
    queries = {
        "/v1/groups/describe": [in_group],
        "/v1/groups/history": [in_group],
        "/v1/groups/lag": [in_group, ""],
        "/v1/topics/describe": [in_topic],
        "/v1/topics/records": [f"{in_topic}&from=earliest"],
    }
    served = [path for method, path in RIGHTS if method == "GET" and path.startswith("/v1/")]
    unserved = {"/v1/events", "/v1/faults", "/v1/mapping"}  # no JSON; off here; there is none here
    for path in {*served} - unserved:
        for query in queries.get(path, [""]):
            status, text = full.http(f"{path}{query}")
            response = json.loads(text)
            assert (status, problems("get", path, response)) == (200, []), (path, response)
    assert get(full, "/v1/topics/records" + in_topic)[1]["records"]
    assert get(full, "/v1/rebalances")[1]["entries"]


def test_a_rebalance_in_progress_is_as_described(full: Serving, group: str) -> None:
    late = Member(full.connect("late"), group)
    late.request_join()
    late.joined()
    late.request_join()  # with the id that it got

    def waiting() -> dict[str, Any] | None:
        found = get(full, "/v1/groups/waiting")[1]
        return found if found["groups"] else None

    assert problems("get", "/v1/groups/waiting", eventually(waiting, "a rebalance", within_s=30)) == []
    late.client.close()


def test_the_mapping_is_as_described(full: Serving) -> None:
    async def reconciler() -> dict[str, Any]:
        status = RepairCounts().status(0.0)
        return {**status, "dry_run": False, "zookeeper_connected": True, "trouble": None}

    runner, port = full.run(start_http(gateway_app(full.gateway, reconciler), "127.0.0.1", 0))
    try:
        status, found = get_at(full, f"http://127.0.0.1:{port}/v1/mapping")
    finally:
        full.run(runner.cleanup())
    assert (status, problems("get", "/v1/mapping", found)) == (200, [])


def get_at(full: Serving, url: str) -> tuple[int, Any]:
    async def send() -> tuple[int, Any]:
        async with ClientSession() as session, session.get(url) as response:
            return response.status, await response.json()

    found: tuple[int, Any] = full.run(send())
    return found


def test_changes_and_their_bodies_are_as_described(
    full: Serving, topic: Topic, group: str, post: Post, fresh: Fresh
) -> None:
    empty = fresh("g")
    find(full.client, 4, empty)
    Member(full.client, empty).commit((topic, 0, 2))
    member_id = get(full, f"/v1/groups/describe?group={group}")[1]["members"][0]["member_id"]
    reset = {"group": empty, "to": {"earliest": True}, "topics": [topic.name]}
    headers = [["h", {"hex": "00"}], ["n", None]]
    bodies: dict[str, dict[str, Any]] = {
        "/v1/groups/evict": {"group": group, "member_id": member_id},
        "/v1/groups/reset/plan": reset,
        "/v1/groups/reset": reset,
        "/v1/topics/records": {"topic": topic.name, "key": {"text": "k"}, "headers": headers},
        "/v1/nodes/drain": {"node_id": "n1"},
        "/v1/nodes/undrain": {"node_id": "n1"},
    }
    assert bodies.keys() >= {path for _, path in CHANGES}
    for path, body in bodies.items():
        schema = document()["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        validator = Draft202012Validator({**schema, "components": document()["components"]})
        assert validator.is_valid(body), path
        assert not validator.is_valid({**body, "more": 1}), path
        status, response = post(path, **body)
        assert (status, problems("post", path, response)) == (200, []), (path, response)

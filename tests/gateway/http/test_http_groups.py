"""The HTTP routes for groups, with real coordinators."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from muster.gateway.http.server import limited_log
from tests.gateway.serving import Serving

Fresh = Callable[[str], str]


def get(full: Serving, path: str) -> tuple[int, dict[str, Any]]:
    status, text = full.http(path)
    body: dict[str, Any] = json.loads(text)
    return status, body


@pytest.fixture
def group(full: Serving, fresh: Fresh) -> str:
    """Return a group; the coordinators of all three partitions run."""
    for partition in range(3):
        assert full.run(full.gateway.coordinator_ready(partition, 10))
    return fresh('g "+&/ü\n')


@pytest.fixture
def respond_to(full: Serving) -> Iterator[Callable[..., None]]:
    """Set the response of every running offsets actor to a query: a function of partition and query."""
    assert full.actors is not None
    before = {partition: dict(core.query_handlers) for partition, core in full.actors.offsets.items()}

    def respond_to(name: str, how: Callable[[int, dict[str, Any]], Any]) -> None:
        assert full.actors is not None
        for partition, core in full.actors.offsets.items():
            before.setdefault(partition, dict(core.query_handlers))
            core.query_handlers[name] = lambda query, partition=partition: how(partition, query)

    yield respond_to
    for partition, known in before.items():
        core = full.actors.offsets[partition]
        core.query_handlers.clear()
        core.query_handlers.update(known)


def test_history_is_the_response_of_the_groups_coordinator(
    full: Serving, group: str, respond_to: Callable[..., None]
) -> None:
    respond_to("history", lambda partition, query: {"partition": partition, "asked": query})
    status, body = get(full, f"/v1/groups/history?group={quote(group)}&limit=7")
    sent = {"ask": "history", "group": group, "limit": 7}
    assert (status, body) == (200, {"partition": full.gateway.partition_of(group), "asked": sent})
    _, body = get(full, f"/v1/groups/history?group={quote(group)}")
    assert body["asked"]["limit"] == 20


@pytest.mark.parametrize(
    "query",
    [
        "",
        "group=",
        "limit=3",
        *(
            f"group=g&limit={bad}"
            for bad in ("0", "-1", "x", "", "1.5", "10001", "9" * 30, "0" * 8 + "1" + "0" * 5000, "٣")
        ),
    ],
)
def test_a_wrong_query_is_400(full: Serving, query: str) -> None:
    status, body = get(full, f"/v1/groups/history?{query}")
    assert status == 400
    assert set(body) == {"error"}


def test_what_the_coordinator_refuses(full: Serving, group: str, respond_to: Callable[..., None]) -> None:
    path = f"/v1/groups/history?group={quote(group)}"
    respond_to("history", lambda partition, query: {"error": f"unknown group {query['group']!r}"})
    assert get(full, path) == (404, {"error": f"unknown group {group!r}"})
    respond_to("history", lambda partition, query: 1 // 0)
    status, body = get(full, path)
    assert status == 500
    assert "ZeroDivisionError" in body["error"]


def test_what_is_no_http_has_one_line_in_the_log(full: Serving, caplog: pytest.LogCaptureFixture) -> None:
    limited_log.flush()  # another test's line of the same kind would hold this one back
    caplog.clear()
    status, _ = full.http(f"/v1/groups/lag?group={'x' * 9000}")
    assert status == 400
    [record] = [record for record in caplog.records if record.name == "aiohttp.server"]
    assert record.getMessage() == "Error handling request from 127.0.0.1: LineTooLong"
    assert (record.levelname, record.exc_info) == ("WARNING", None)


@pytest.mark.parametrize("route", ["history", "lag"])
def test_a_query_starts_no_coordinator(full: Serving, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    """A partition that was never used gets no coordinator."""
    monkeypatch.setattr(full.controller, "start_coordinator", {})
    unused = full.gateway.partition_of("nope")
    endpoint = full.controller.offsets.pop(unused, None)
    full.follow(full.controller.view())
    try:
        assert get(full, f"/v1/groups/{route}?group=nope") == (404, {"error": "unknown group nope"})
        assert unused not in full.gateway.view.offsets
    finally:
        if endpoint is not None:
            full.controller.offsets[unused] = endpoint
            full.follow(full.controller.view())
            assert full.run(full.gateway.coordinator_ready(unused, 10))


def test_a_group_whose_coordinator_is_down_is_503(
    full: Serving, group: str, respond_to: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.gateway.http.groups._READY_S", 0.05)
    monkeypatch.setattr(full.controller, "start_coordinator", {})
    respond_to("waiting", lambda partition, query: {"waiting": [partition]})
    down = full.gateway.partition_of(group)
    endpoint, full.controller.offsets[down] = full.controller.offsets[down], None
    full.follow(full.controller.view())
    try:
        status, body = get(full, f"/v1/groups/history?group={quote(group)}")
        assert status == 503
        assert f"offsets-{down}" in body["error"]
        others = [partition for partition in range(3) if partition != down]
        assert get(full, "/v1/groups/waiting") == (
            200,
            {"waiting": others, "partial": True, "missing_partitions": [down]},
        )
    finally:
        full.controller.offsets[down] = endpoint
        full.follow(full.controller.view())
        assert full.run(full.gateway.coordinator_ready(down, 10))


def test_a_coordinator_that_never_responds_is_503(
    full: Serving, group: str, respond_to: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.gateway.http.groups._REQUEST_TIMEOUT_S", 0.05)
    cancelled = asyncio.Event()

    async def never(partition: int, query: dict[str, Any]) -> dict[str, Any]:
        try:
            await asyncio.get_running_loop().create_future()
            return {}
        finally:
            cancelled.set()

    respond_to("history", never)
    status, body = get(full, f"/v1/groups/history?group={quote(group)}")
    assert status == 503
    assert "does not respond" in body["error"]
    full.run(cancelled.wait())


def test_waiting_is_of_all_coordinators_that_run(full: Serving, group: str, respond_to: Callable[..., None]) -> None:
    respond_to("waiting", lambda partition, query: {"waiting": [{"partition": partition}], "more": partition})
    assert get(full, "/v1/groups/waiting") == (
        200,
        {
            "waiting": [{"partition": partition} for partition in range(3)],
            "partial": False,
            "missing_partitions": [],
        },
    )
    respond_to("waiting", lambda partition, query: {} if partition == 1 else {"error": "not now"})
    assert get(full, "/v1/groups/waiting") == (200, {"partial": True, "missing_partitions": [0, 2]})
    respond_to("waiting", lambda partition, query: {"error": "not now"})
    status, body = get(full, "/v1/groups/waiting")
    assert status == 503
    assert "offsets-0, offsets-1, offsets-2" in body["error"]

"""The HTTP routes for groups, with real coordinators."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.gateway.serving import Serving

Fresh = Callable[[str], str]


def get(full: Serving, path: str) -> tuple[int, dict[str, Any]]:
    status, text = full.http(path)
    body: dict[str, Any] = json.loads(text)
    return status, body


@pytest.fixture
def group(full: Serving, fresh: Fresh) -> str:
    """A group; the coordinators of all three partitions run."""
    for partition in range(3):
        assert full.run(full.gateway.coordinator_ready(partition, 10))
    return fresh('g "+&/ü\n')


@pytest.fixture
def answers(full: Serving) -> Iterator[Callable[..., None]]:
    """Set the response of every running offsets actor to a query: a function of partition and query."""
    assert full.actors is not None
    before = {partition: dict(core.answers) for partition, core in full.actors.offsets.items()}

    def answer(name: str, how: Callable[[int, dict[str, Any]], Any]) -> None:
        assert full.actors is not None
        for partition, core in full.actors.offsets.items():
            before.setdefault(partition, dict(core.answers))
            core.answers[name] = lambda question, partition=partition: how(partition, question)

    yield answer
    for partition, known in before.items():
        core = full.actors.offsets[partition]
        core.answers.clear()
        core.answers.update(known)


def test_history_is_what_the_groups_coordinator_answers(
    full: Serving, group: str, answers: Callable[..., None]
) -> None:
    answers("history", lambda partition, question: {"partition": partition, "asked": question})
    status, body = get(full, f"/v1/groups/history?group={quote(group)}&limit=7")
    asked = {"ask": "history", "group": group, "limit": 7}
    assert (status, body) == (200, {"partition": full.gateway.partition_of(group), "asked": asked})
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
def test_what_cannot_be_asked_is_400(full: Serving, query: str) -> None:
    status, body = get(full, f"/v1/groups/history?{query}")
    assert status == 400
    assert set(body) == {"error"}


def test_what_the_coordinator_refuses(full: Serving, group: str, answers: Callable[..., None]) -> None:
    path = f"/v1/groups/history?group={quote(group)}"
    answers("history", lambda partition, question: {"error": f"unknown group {question['group']!r}"})
    assert get(full, path) == (404, {"error": f"unknown group {group!r}"})
    answers("history", lambda partition, question: 1 // 0)
    status, body = get(full, path)
    assert status == 500
    assert "ZeroDivisionError" in body["error"]


def test_what_is_no_http_has_one_line_in_the_log(full: Serving, caplog: pytest.LogCaptureFixture) -> None:
    status, _ = full.http(f"/v1/groups/lag?group={'x' * 9000}")
    assert status == 400
    [record] = [record for record in caplog.records if record.name == "aiohttp.server"]
    assert record.getMessage() == "Error handling request from 127.0.0.1: LineTooLong"
    assert (record.levelname, record.exc_info) == ("WARNING", None)


@pytest.mark.parametrize("route", ["history", "lag"])
def test_asking_starts_no_coordinator(full: Serving, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    """Of a partition that was never used."""
    monkeypatch.setattr(full.controller, "start_offsets", None)
    unused = full.gateway.partition_of("nobody")
    endpoint = full.controller.offsets.pop(unused, None)
    full.follow(full.controller.view())
    try:
        assert get(full, f"/v1/groups/{route}?group=nobody") == (404, {"error": "unknown group nobody"})
        assert unused not in full.gateway.view.offsets
    finally:
        if endpoint is not None:
            full.controller.offsets[unused] = endpoint
            full.follow(full.controller.view())
            assert full.run(full.gateway.coordinator_ready(unused, 10))


def test_a_group_whose_coordinator_is_down_is_503(
    full: Serving, group: str, answers: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.gateway.http.groups._READY_S", 0.05)
    monkeypatch.setattr(full.controller, "start_offsets", None)
    answers("waiting", lambda partition, question: {"waiting": [partition]})
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


def test_a_coordinator_that_never_answers_is_503(
    full: Serving, group: str, answers: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.gateway.http.groups._REQUEST_TIMEOUT_S", 0.05)
    cancelled = asyncio.Event()

    async def never(partition: int, question: dict[str, Any]) -> dict[str, Any]:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    answers("history", never)
    status, body = get(full, f"/v1/groups/history?group={quote(group)}")
    assert status == 503
    assert "does not respond" in body["error"]
    full.run(cancelled.wait())


def test_waiting_is_of_all_coordinators_that_run(full: Serving, group: str, answers: Callable[..., None]) -> None:
    answers("waiting", lambda partition, question: {"waiting": [{"partition": partition}], "more": partition})
    assert get(full, "/v1/groups/waiting") == (
        200,
        {
            "waiting": [{"partition": partition} for partition in range(3)],
            "partial": False,
            "missing_partitions": [],
        },
    )
    answers("waiting", lambda partition, question: {} if partition == 1 else {"error": "not now"})
    assert get(full, "/v1/groups/waiting") == (200, {"partial": True, "missing_partitions": [0, 2]})
    answers("waiting", lambda partition, question: {"error": "not now"})
    status, body = get(full, "/v1/groups/waiting")
    assert status == 503
    assert "offsets-0, offsets-1, offsets-2" in body["error"]

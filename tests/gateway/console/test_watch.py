"""The poller, with HTTP servers that respond as gateways do, or do not."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from muster.gateway.console import watch as watch_module
from muster.gateway.console.api import Api, ApiError, Gateways, MissingRoute, NoGateway
from muster.gateway.console.watch import Watch, Watches
from tests.gateway.console.model.entries import entry


class _Gateway:
    """A server with some of a gateway's routes, that counts requests."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.authorized: list[str | None] = []
        self.status = 200
        self.slow: dict[str, float] = {}
        """By path, for how long it does not respond, in seconds."""
        self.events: asyncio.Queue[str] = asyncio.Queue()
        self.url = ""

    async def respond(self, request: web.Request) -> web.StreamResponse:
        self.requests[request.path] += 1
        self.authorized.append(request.headers.get("Authorization"))
        await asyncio.sleep(self.slow.get(request.path, 0))
        if self.status != 200:
            return web.json_response({"error": "not now"}, status=self.status)
        bodies: dict[str, dict[str, Any]] = {
            "/v1/groups/lag": {"groups": [{"group": "g", "state": "Stable", "lag": 5, "lag_s": 1.5}], "total": 1},
            "/v1/groups/waiting": {"groups": []},
            "/v1/status": {"cluster_id": "c", "nodes": [], "actors": [{"name": "offsets-0", "state": "alive"}]},
            "/v1/faults": {"faults": []},
        }
        body = bodies.get(request.path)
        if request.path == "/v1/events":
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            while True:
                await response.write((await self.events.get()).encode())
        if body is None:
            raise web.HTTPNotFound
        return web.json_response(body)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[_Gateway]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.respond)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()


async def _until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - of several parts, none of which has an event for it
            await asyncio.sleep(0.02)


def test_nothing_is_requested_without_a_viewer() -> None:
    async def run() -> None:
        async with _Gateway().serving() as gateway, aiohttp.ClientSession() as session:
            watch = Watch(Api(Gateways([gateway.url]), session))
            assert watch._tasks == {}
            watch.join("viewer", lambda: None)
            assert await watch.ready(5)
            assert watch.now.group("g") is not None
            watch.leave("viewer")
            await _until(lambda: all(task.done() for task in watch._tasks.values()))
            assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("console")]

    asyncio.run(run())


def test_a_viewer_who_comes_while_one_part_still_pauses_sees_everything() -> None:
    async def run() -> None:
        async with _Gateway().serving() as gateway, aiohttp.ClientSession() as session:
            gateway.slow = {"/v1/groups/lag": 0.5}  # after which this part pauses for seconds
            watch = Watch(Api(Gateways([gateway.url]), session))
            watch.join("first", lambda: None)
            await _until(lambda: watch.rounds)
            watch.leave("first")
            await _until(lambda: watch._tasks["console others"].done())
            assert not watch._tasks["console groups"].done()
            before = gateway.requests["/v1/status"]
            watch.join("second", lambda: None)
            await _until(lambda: gateway.requests["/v1/status"] > before)
            await watch.close()

    asyncio.run(run())


def test_ten_viewers_cost_what_one_costs() -> None:
    async def run() -> None:
        async with _Gateway().serving() as gateway, aiohttp.ClientSession() as session:
            watches = Watches(lambda authorization: Api(Gateways([gateway.url]), session, authorization))
            informed: Counter[int] = Counter()
            watch = watches.of("Basic eA==")
            for viewer in range(10):
                assert watches.of("Basic eA==") is watch
                watch.join(viewer, lambda viewer=viewer: informed.update([viewer]))
            await _until(lambda: gateway.requests["/v1/groups/lag"] >= 3)
            assert gateway.requests["/v1/groups/lag"] <= 4
            assert set(informed) == set(range(10))
            assert set(gateway.authorized) == {"Basic eA=="}
            await watches.close()

    asyncio.run(run())


def test_a_rebalance_of_the_stream_is_in_the_journal() -> None:
    async def run() -> None:
        async with _Gateway().serving() as gateway, aiohttp.ClientSession() as session:
            gateway.slow = {"/v1/attribution": 0.5}  # rebalances are forgotten after it
            watch = Watch(Api(Gateways([gateway.url]), session))
            watch.join("viewer", lambda: None)
            await _until(lambda: gateway.requests["/v1/events"] == 1)
            ended = entry(3, began_ms=time.time_ns() // 1_000_000)  # what ended an hour ago is forgotten
            await gateway.events.put(f": heartbeat\n\nevent: rebalance\ndata: {json.dumps(ended.to_json())}\n\n")
            await _until(lambda: [each.number for each in watch.journal.of_group("g")] == [3])
            await _until(lambda: gateway.requests["/v1/mapping"])
            assert [each.number for each in watch.journal.of_group("g")] == [3]
            await watch.close()

    asyncio.run(run())


def test_what_has_happened_ends_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "MAX_PAUSE_S", 10_000.0)
    monkeypatch.setattr(watch_module, "_SHARES", {"_others": 1e-9})

    async def run() -> None:
        async with _Gateway().serving() as gateway, aiohttp.ClientSession() as session:
            watch = Watch(Api(Gateways([gateway.url]), session))
            watch.join("viewer", lambda: None)
            await _until(lambda: gateway.requests["/v1/events"] == 1 and gateway.requests["/v1/status"] == 1)
            died = {"at_ms": 1, "name": "offsets-0", "state": "down", "node_id": None}
            await gateway.events.put(f"event: actor\ndata: {json.dumps(died)}\n\n")
            await _until(lambda: gateway.requests["/v1/status"] == 2)
            await watch.close()

    asyncio.run(run())


def test_an_actor_that_is_lost_is_shown_before_the_next_status() -> None:
    async def run() -> None:
        async with _Gateway().serving() as gateway, aiohttp.ClientSession() as session:
            watch, seen = Watch(Api(Gateways([gateway.url]), session)), list[str]()
            watch.join("viewer", lambda: seen.extend(each.state for each in watch.now.actors))
            await _until(lambda: gateway.requests["/v1/events"] == 1 and seen)
            lost = {"at_ms": 1, "name": "offsets-0", "state": "disconnected", "node_id": None}
            await gateway.events.put(f"event: actor\ndata: {json.dumps(lost)}\n\n")
            await _until(lambda: "disconnected" in seen)
            await watch.close()

    asyncio.run(run())


def test_a_viewer_without_rights_is_said_so() -> None:
    async def run() -> None:
        async with _Gateway().serving() as gateway, aiohttp.ClientSession() as session:
            gateway.status = 401
            watch = Watch(Api(Gateways([gateway.url]), session))
            said: list[bool] = []
            watch.join("viewer", lambda: said.append(watch.is_unauthorized))
            assert await watch.ready(5)
            assert watch.is_unauthorized
            said.clear()
            await _until(lambda: len(said) >= 6)  # two rounds of each part, one of which often asks for nothing
            assert all(said)
            await watch.close()

    asyncio.run(run())


def test_the_next_gateway_responds_and_the_first_is_named() -> None:
    async def run() -> None:
        async with _Gateway().serving() as gone:
            pass
        async with _Gateway().serving() as gateway, aiohttp.ClientSession() as session:
            api = Api(Gateways([gone.url, gateway.url]), session)
            assert (await api.get("/v1/status"))["cluster_id"] == "c"
            assert list(api.failed) == [gone.url]
            assert api.gateway == gateway.url
            with pytest.raises(MissingRoute):
                await api.get("/v1/cluster")
            gateway.status = 403
            with pytest.raises(ApiError, match="not now") as refused:
                await api.post("/v1/faults", {})
            assert refused.value.status == 403
            with pytest.raises(NoGateway):
                await Api(Gateways([gone.url]), session).get("/v1/status")

    asyncio.run(run())

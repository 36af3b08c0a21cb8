"""``GET /v1/events``, with real coordinators."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web

from muster.actors.faults.model import Fault
from muster.actors.group.events import Cause
from muster.actors.runtime.process import now_ms
from muster.actors.tables.rebalance_entry import Ending, RebalanceEntry
from muster.gateway.console.api import Api, Gateways
from muster.gateway.console.events import EventReader
from muster.gateway.console.model.journal import Journal
from muster.gateway.console.model.marks import ACTOR, FAULT, Marks
from muster.gateway.faults.injection import GatewayFaults
from muster.gateway.http.callers import Caller, Callers, Handler
from muster.gateway.http.feed import Cursor, Event, Kind, Position
from muster.gateway.http.server import bounded, start_http
from muster.gateway.http.stream import EVENTS, Filter, Listener, Streams
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
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.http.event_stream import Sent, streaming
from tests.gateway.serving import Serving
from tests.tables.rebalances import entry

PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "fault.injection.enable": "true",
}
MANY, LONG = 30, 100_000
"""Rebalances of a coordinator, and the length of their reasons: more than a socket's buffers take."""


@pytest.fixture(autouse=True)
def coordinators(full: Serving) -> Iterator[None]:
    for partition in range(3):
        assert full.run(full.gateway.coordinator_ready(partition, 30))
    yield
    full.gateway.authorizer = None


def kept(full: Serving, number: int, group: str, **changes: Any) -> RebalanceEntry:
    """Have the coordinator of partition 0 keep an entry that ends now. Call it on the gateway's loop."""
    assert full.actors is not None
    ended = replace(entry(number), offsets_partition=0, group=group, ended_ms=now_ms(), **changes)
    full.actors.histories[0].keep(ended)
    return ended


def run(full: Serving, work: Callable[[str], Awaitable[Any]]) -> Any:
    """Run it on the gateway's loop with the gateway's URL."""
    url = full.http_url

    async def limited() -> Any:
        async with asyncio.timeout(29):
            return await work(url)

    return full.run(limited())


def test_a_real_rebalance_is_sent_as_in_the_history(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")
    find(full.client, 4, group)

    async def first(url: str) -> Sent:
        async with streaming(url, f"?group={group}") as stream:
            await asyncio.to_thread(joined, full, group)
            return await stream.next()

    sent = run(full, first)
    status, text = full.http(f"/v1/groups/history?group={group}")
    assert (sent.kind, status) == ("rebalance", 200)
    assert sent.values == json.loads(text)["entries"][-1]
    place = Position.of(sent.id)
    assert sent.id.startswith(f"{full.gateway.partition_of(group)}.{sent.values['epoch']}.")
    assert {*place.cursors} == {0, 1, 2}


def joined(full: Serving, group: str) -> None:
    with full.connect("reader") as client:
        member = Member(client, group)
        member.join()
        member.sync({member.id: b""})


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", [1, 2, 3, 4]),
        ("?group=a&group=b", [1, 2, 4]),
        (f"?cause={quote(Cause.SESSION_EXPIRED)}", [2, 4]),
        (f"?cause={quote(Cause.SESSION_EXPIRED)}&group=b", [4]),
        ("?ending=stable&ending=aborted", [1, 3]),
        ("?kind=rebalance", [1, 2, 3, 4]),
        ("?kind=fault&kind=rebalance&group=c", [3]),
    ],
)
def test_filters(full: Serving, query: str, wanted: list[int]) -> None:
    async def numbers(url: str) -> list[int]:
        async with streaming(url, query) as stream:
            kept(full, 1, "a")
            kept(full, 2, "a", cause=Cause.SESSION_EXPIRED, ending=Ending.EMPTY)
            kept(full, 3, "c", ending=Ending.ABORTED)
            kept(full, 4, "b", cause=Cause.SESSION_EXPIRED, ending=Ending.RESTARTED)
            return [(await stream.next("rebalance")).values["number"] for _ in wanted]

    assert run(full, numbers) == wanted


@pytest.mark.parametrize("query", ["cause=x", "ending=running", "kind=lost", "ending=stable&ending=x"])
def test_a_value_that_does_not_exist_is_400(full: Serving, query: str) -> None:
    status, text = full.http(f"{EVENTS}?{query}")
    assert status == 400
    assert "does not exist; there are: " in json.loads(text)["error"]


@pytest.mark.parametrize("by_header", [True, False])
def test_a_client_that_comes_again_gets_what_it_has_missed_once(full: Serving, fresh: Fresh, by_header: bool) -> None:
    group = fresh("g")

    async def numbers(url: str) -> list[int]:
        async with streaming(url, f"?group={group}") as stream:
            kept(full, 1, group)
            kept(full, 2, fresh("another"))
            assert (await stream.next()).values["number"] == 1
            first = stream.id
        kept(full, 3, group)
        kept(full, 4, group)
        query, headers = (f"&last_event_id={first}", {}) if not by_header else ("", {"Last-Event-ID": first})
        async with streaming(url, f"?group={group}{query}", **headers) as stream:
            found = [(await stream.next()).values["number"] for _ in range(2)]
            kept(full, 5, group)
            return [*found, (await stream.next()).values["number"]]

    assert run(full, numbers) == [3, 4, 5]


def test_a_client_that_comes_again_beside_another_gets_nothing_twice(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")

    async def numbers(url: str) -> list[int]:
        async with streaming(url, f"?group={group}") as other:
            kept(full, 1, group)
            first = (await other.next()).id
            for number in range(2, 6):
                kept(full, number, group)
            while (await other.next()).values["number"] != 5:
                pass
            async with streaming(url, f"?group={group}", **{"Last-Event-ID": first}) as stream:
                found = [(await stream.next()).values["number"] for _ in range(2)]
                second = stream.id
            async with streaming(url, f"?group={group}", **{"Last-Event-ID": second}) as stream:
                kept(full, 6, group)
                return [*found, *[(await stream.next()).values["number"] for _ in range(3)]]

    assert run(full, numbers) == [2, 3, 4, 5, 6]


def test_a_comment_has_the_place_for_a_client_that_got_no_event(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")

    async def number(url: str) -> int:
        async with streaming(url, f"?group={group}") as stream:
            place = await stream.place()
        kept(full, 1, group)
        async with streaming(url, f"?group={group}", **{"Last-Event-ID": place}) as stream:
            found: int = (await stream.next()).values["number"]
            return found

    assert run(full, number) == 1


def test_what_cannot_be_resumed_is_said(full: Serving, fresh: Fresh) -> None:
    """A coordinator of another epoch is no more, one that has never been is not known, and an id may be none."""

    async def sent(url: str, change: Callable[[Position], str], count: int) -> list[Any]:
        async with streaming(url, "?kind=rebalance") as stream:
            place = change(Position.of(await stream.place()))
        kept(full, 1, fresh("g"))
        async with streaming(url, "?kind=rebalance", **{"Last-Event-ID": place}) as stream:
            found = [await stream.next() for _ in range(count)]
        return [each.values if each.kind == "lost" else each.kind for each in found]

    def with_cursor(partition: int, cursor: Cursor) -> Callable[[Position], str]:
        return lambda now: Position({**now.cursors, partition: cursor}, now.at_ms).id()

    def lost(coordinator: str | None) -> dict[str, Any]:
        return {"count": None, "coordinator": coordinator}

    of_other_epoch, unknown = with_cursor(0, Cursor(1 << 40, 9)), with_cursor(9, Cursor(1, 1))
    assert run(full, lambda url: sent(url, of_other_epoch, 2)) == [lost("offsets-0"), "rebalance"]
    assert sorted(run(full, lambda url: sent(url, unknown, 2)), key=str) == ["rebalance", lost("offsets-9")]
    assert run(full, lambda url: sent(url, lambda _: "x", 1)) == [lost(None)]


@pytest.mark.parametrize("text", ["", "x", "1.2@3", "1.2.3", "1.2.3@", "1.2.3@x", "-1.2.3@4", "1.2.3.4@5", "1" * 5000])
def test_text_that_is_no_id(text: str) -> None:
    with pytest.raises(ValueError, match=r"it is no|unpack"):
        Position.of(text)


def test_an_id_names_its_own_coordinator_first() -> None:
    position = Position({1: Cursor(2, 3), 7: Cursor(8, 9)}, 10)
    assert position.id(7) == "7.8.9,1.2.3@10"
    assert Position.of(position.id(7)) == position
    assert Position({number: Cursor(1, 10**9) for number in range(1000)}, 0).id() == ""


def acl(operation: AclOperation, kind: AclResourceType, name: str) -> Acl:
    pattern = AclPattern(kind, name, AclPatternType.LITERAL)
    return Acl(pattern, "User:ANONYMOUS", "*", operation, AclPermission.ALLOW)


def test_rights_are_those_at_the_time_of_each_event(full: Serving) -> None:
    mine, other = replace(entry(1), group="mine"), replace(entry(2), group="other")
    topic = entry(1).to_json()["partitions"][0]["topic"]
    of_mine = acl(AclOperation.DESCRIBE, AclResourceType.GROUP, "mine")
    of_topic = acl(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
    of_cluster = acl(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
    caller = Caller("User:ANONYMOUS", "127.0.0.1", may_all=False, authorizer=Authorizer((), set(), allow_everyone=True))
    listener = Listener(full.gateway, caller, Filter(frozenset(Kind), {}))

    def sent(ended: RebalanceEntry, *acls: Acl) -> int | None:
        """Return with how many partitions it is sent; None if it is not."""
        full.gateway.authorizer = Authorizer(acls, set(), allow_everyone=False)
        block = listener.as_sent(Event(Kind.REBALANCE, ended.to_json()))
        return (
            None
            if block is None
            else len(json.loads(block.decode().splitlines()[-2].removeprefix("data: "))["partitions"])
        )

    count = len(mine.to_json()["partitions"])
    assert [sent(mine), sent(other, of_mine), sent(mine, of_mine)] == [None, None, 0]
    assert [sent(mine, of_mine, of_topic), sent(mine, of_topic), sent(other, of_cluster)] == [count, None, 0]


def test_faults_and_actors_are_for_who_sees_the_cluster(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")

    async def kinds(url: str, *, sees_cluster: bool) -> list[tuple[str, Any]]:
        full.gateway.authorizer = None
        faults = full.gateway.faults
        assert isinstance(faults, GatewayFaults)
        acls = [acl(AclOperation.DESCRIBE, AclResourceType.GROUP, group)]
        if sees_cluster:
            acls.append(acl(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME))
        full.gateway.authorizer = Authorizer(acls, set(), allow_everyone=False)
        found: list[tuple[str, Any]] = []
        async with streaming(url) as stream:
            await stream.place()
            done = await faults.controller.inject(Fault("error", error="NOT_COORDINATOR", group=group), "gateway-1")
            await faults.controller.clear(done["id"])
            lost = dict(full.controller.offsets)
            view = full.controller.view()
            full.gateway.follow(replace(view, offsets={**lost, 1: None}))
            for _ in range(3 if sees_cluster else 0):
                sent = await stream.next()
                found.append((sent.kind, sent.values.get("what") or (sent.values["name"], sent.values["state"])))
            full.gateway.follow(full.controller.view())
            if sees_cluster:
                sent = await stream.next()
                found.append((sent.kind, (sent.values["name"], sent.values["state"])))
            kept(full, 1, group)
            found.append(((await stream.next()).kind, None))
        return found

    assert run(full, lambda url: kinds(url, sees_cluster=False)) == [("rebalance", None)]
    found = run(full, lambda url: kinds(url, sees_cluster=True))
    assert sorted(found[:3], key=str) == [
        ("actor", ("offsets-1", "down")),
        ("fault", "cleared"),
        ("fault", "injected"),
    ]
    assert found[3:] == [("actor", ("offsets-1", "alive")), ("rebalance", None)]


def test_a_lost_connection_to_an_actor_is_put_before_the_next_view(full: Serving) -> None:
    async def scenario(url: str) -> list[tuple[str, str]]:
        async with streaming(url, kind="actor") as stream:
            await stream.place()
            channel = full.gateway.forwarder.offsets(1)
            assert channel is not None
            channel.close()
            sent = [await stream.next() for _ in range(2)]
        return [(each.values["name"], each.values["state"]) for each in sent]

    assert run(full, scenario) == [("offsets-1", "disconnected"), ("offsets-1", "alive")]


def test_journals_are_read_once_for_all_and_only_while_somebody_listens(
    full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert full.actors is not None
    handlers, count, listeners = full.actors.offsets[0].query_handlers, 0, 10
    real = handlers["journal"]

    def counted(query: dict[str, Any]) -> Any:
        nonlocal count
        count += 1
        return real(query)

    monkeypatch.setitem(handlers, "journal", counted)

    async def scenario(_: str) -> int:
        streams = Streams(full.gateway)
        served = Served(full, streams)
        url = await served.start()
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(streaming(url)) for _ in range(listeners)]
            for stream in opened:
                await stream.place()
            before = count
            kept(full, 1, fresh("g"))
            for stream in opened:
                await stream.next("rebalance")
            during = count - before
            assert served.handlers == listeners
        await served.until_unused()
        assert streams.is_idle
        await served.runner.cleanup()
        return during

    assert 1 <= run(full, scenario) < listeners


class Served:
    """Streams at a port of their own."""

    def __init__(self, full: Serving, streams: Streams) -> None:
        @web.middleware
        async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
            self.handlers += 1
            self._unused.clear()
            try:
                return await handler(request)
            finally:
                self.handlers -= 1
                if not self.handlers:
                    self._unused.set()

        self.handlers = 0
        self._unused = asyncio.Event()
        self._app = web.Application(middlewares=(counted, bounded(), Callers(full.gateway).middleware))
        self._app.router.add_get(EVENTS, streams.serve, allow_head=False)
        self._app.on_shutdown.append(streams.shut)
        self.runner: web.AppRunner

    async def start(self) -> str:
        """Return the URL."""
        self.runner, port = await start_http(self._app, "127.0.0.1", 0)
        return f"http://127.0.0.1:{port}"

    async def until_unused(self) -> None:
        await self._unused.wait()


@pytest.mark.parametrize("limits", [{"at_once": 2}, {"per_host": 2}])
def test_few_streams_exist_at_once_and_end_with_the_gateway(full: Serving, limits: dict[str, int]) -> None:
    async def status(url: str) -> tuple[int, str | None]:
        async with aiohttp.ClientSession() as session, session.get(f"{url}{EVENTS}") as response:
            return response.status, response.headers.get("Retry-After")

    async def scenario(_: str) -> None:
        served = Served(full, Streams(full.gateway, **limits))
        url = await served.start()
        async with streaming(url), streaming(url) as stream:
            assert await status(url) == (503, "5")
            ended = asyncio.create_task(served.runner.cleanup())
            with pytest.raises(EOFError):
                await stream.next()
            await ended

    run(full, scenario)


def test_a_stream_ends_after_a_time_so_that_credentials_are_checked_again(full: Serving) -> None:
    async def scenario(_: str) -> None:
        served = Served(full, Streams(full.gateway, max_s=0))
        async with streaming(await served.start()) as stream:
            with pytest.raises(EOFError):
                await stream.block()
        await served.runner.cleanup()

    run(full, scenario)


def test_a_gateway_ends_while_a_client_waits_for_what_it_has_missed(
    full: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert full.actors is not None
    is_queried, never = asyncio.Event(), asyncio.Event()

    async def silent(_: dict[str, Any]) -> dict[str, Any]:
        is_queried.set()
        await never.wait()
        return {}

    monkeypatch.setitem(full.actors.offsets[0].query_handlers, "journal", silent)

    async def scenario(_: str) -> None:
        served = Served(full, Streams(full.gateway))
        url = await served.start()
        async with streaming(url, **{"Last-Event-ID": "0.1.1@1"}) as stream:
            await is_queried.wait()
            await served.runner.cleanup()
            with pytest.raises((EOFError, aiohttp.ClientPayloadError)):
                await stream.block()
        never.set()

    run(full, scenario)


async def slow_client(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection that takes little before it is read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", int(url.rpartition(":")[2])))
    reader, writer = await asyncio.open_connection(sock=client, limit=2 * LONG)
    writer.write(f"GET {EVENTS}?kind=rebalance HTTP/1.0\r\n\r\n".encode())
    return reader, writer


def keep_many(full: Serving, group: str) -> None:
    assert full.actors is not None
    for partition, history in full.actors.histories.items():
        for number in range(1, MANY + 1):
            ended = replace(entry(number), offsets_partition=partition, group=f"{group}-{partition}")
            history.keep(replace(ended, ended_ms=now_ms(), reason="x" * LONG))


def test_a_client_that_does_not_read_in_time_is_sent_how_many_it_has_lost(full: Serving, fresh: Fresh) -> None:
    group, all_of_them = fresh("g"), 3 * MANY

    async def scenario(url: str) -> tuple[int, int]:
        reader, writer = await slow_client(url)
        await reader.readuntil(b"heartbeat")
        async with streaming(url, "?kind=rebalance") as stream:
            await stream.place()
            keep_many(full, group)
            seen = 0
            while seen < all_of_them:
                sent = await stream.next()
                seen += sent.values["count"] if sent.kind == "lost" else 1
        found, lost = 0, 0
        while found + lost < all_of_them:
            line = await reader.readline()
            if line.startswith(b"data: "):
                values = json.loads(line.removeprefix(b"data: "))
                found, lost = found + ("number" in values), lost + values.get("count", 0)
        writer.close()
        return found, lost

    found, lost = run(full, scenario)
    assert found >= 1
    assert lost >= 1


def test_a_client_that_never_reads_loses_its_connection(full: Serving, fresh: Fresh) -> None:
    async def scenario(_: str) -> None:
        served = Served(full, Streams(full.gateway, send_s=0.2))
        url = await served.start()
        reader, writer = await slow_client(url)
        await reader.readuntil(b"heartbeat")
        keep_many(full, fresh("g"))
        await served.until_unused()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(3 * MANY * LONG)
        writer.close()
        await served.runner.cleanup()

    run(full, scenario)


def test_a_listener_keeps_the_first_and_counts_what_it_loses(full: Serving) -> None:
    listener = Listener(full.gateway, Caller("User:ann", "h", may_all=True), Filter(frozenset({Kind.REBALANCE}), {}))
    event = Event(Kind.REBALANCE, {"group": "billing"}, "7.1.1@1", 7)

    async def scenario() -> list[bytes]:
        listener.put(event)
        listener.is_open = True
        for _ in range(1_005):
            listener.put(event)
        first = [await listener.next(0) for _ in range(1_000)]
        listener.put(event)
        lost = await listener.next(0)
        listener.put(event)
        return [*{*first}, lost, await listener.next(0), await listener.next(0)]

    first, lost, again, none = full.run(scenario())
    assert first == again == b"id: 7.1.1@1\nevent: rebalance\ndata: " + event.text.encode() + b"\n\n"
    assert lost == b'event: lost\ndata: {"count": 6, "coordinator": null}\n\n'
    assert none == b""


def test_the_console_reads_the_stream_of_a_real_gateway(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")

    async def scenario(url: str) -> tuple[list[str], Journal, Marks]:
        faults = full.gateway.faults
        assert isinstance(faults, GatewayFaults)
        journal, marks, kinds = Journal(), Marks(), asyncio.Queue[str]()
        async with streaming(url) as stream:
            place = await stream.place()
        async with aiohttp.ClientSession() as session:
            reader = EventReader(Api(Gateways([url]), session), journal, marks, lambda kind, _: kinds.put_nowait(kind))
            reader.place = place
            reading = asyncio.create_task(reader.read())
            kept(full, 1, group)
            found = [await kinds.get()]
            done = await faults.controller.inject(Fault("error", error="NOT_COORDINATOR", group=group), "gateway-1")
            await faults.controller.clear(done["id"])
            full.gateway.follow(replace(full.controller.view(), offsets={**full.controller.offsets, 1: None}))
            found += [await kinds.get() for _ in range(3)]
            full.gateway.follow(full.controller.view())
            found.append(await kinds.get())
            reading.cancel()
        return found, journal, marks

    kinds, journal, marks = run(full, scenario)
    assert kinds[0] == "rebalance"
    assert sorted(kinds[1:]) == ["actor", "actor", "fault", "fault"]
    assert [each.number for each in journal.of_group(group)] == [1]
    text = f"error NOT_COORDINATOR group {group}"
    assert [mark.text for mark in marks.since() if mark.kind == FAULT] == [text, f"end of {text}"]
    assert [mark.text for mark in marks.since() if mark.kind == ACTOR] == [
        "offsets-1 is down",
        "offsets-1 serves",
    ]

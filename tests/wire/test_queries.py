"""Queries in addition to Kafka's APIs, over a real internal socket."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.channel import Channel, ChannelLost, NotSent, connect
from muster.actors.wire.internal.envelope import Kind, SeenLease
from muster.actors.wire.internal.fetch import FetchRequest
from muster.actors.wire.internal.listener import Peer, Server
from muster.actors.wire.internal.markers import Marker
from muster.actors.wire.internal.produce import ProduceRequest
from muster.actors.wire.internal.queries import QueryHandlers
from muster.actors.wire.internal.verification import VerifyRequest
from muster.placement.client import Context


class Actor:
    """Echoes Kafka frames, answers queries."""

    def __init__(self) -> None:
        self.queries = QueryHandlers()
        self.handlers = self.queries.handlers
        self.query = self.queries.query
        self.cancel = self.queries.cancel
        self.left = self.queries.left
        self.peers: list[Peer] = []

    def joined(self, peer: Peer) -> None:
        self.peers.append(peer)

    def request(self, peer: Peer, token: int, context: Context, frame: bytes) -> None:
        peer.reply(token, frame)

    def produce(self, peer: Peer, token: int, request: ProduceRequest) -> None:
        raise AssertionError("nothing is produced")

    def verify(self, peer: Peer, token: int, request: VerifyRequest) -> None:
        raise AssertionError("not sent")

    def markers(self, peer: Peer, token: int, markers: list[Marker]) -> None:
        raise AssertionError("no transaction ends")

    def fetch(self, peer: Peer, token: int, request: FetchRequest) -> None:
        raise AssertionError("nothing is fetched")

    def heartbeats_seen(self, peer: Peer, leases: list[SeenLease]) -> None:
        raise AssertionError("there are none")

    def lease_confirmed(self, peer: Peer, lease: int) -> None:
        raise AssertionError("there are none")


def run(tmp_path: Path, scenario: Callable[[Actor, Channel], Awaitable[None]]) -> None:
    async def main() -> None:
        actor = Actor()
        server = Server(actor, b"secret")
        endpoint = await server.start(node_id="here", host="127.0.0.1", path=tmp_path / "actor.sock")
        try:
            async with asyncio.timeout(20):
                channel = await connect(endpoint, "here", on_updates=None, on_lost=lambda: None)
                await scenario(actor, channel)
                channel.close()
        finally:
            await server.stop()

    asyncio.run(main())


async def raw(channel: Channel, data: bytes) -> dict[str, Any]:
    """Return the response to a QUERY of these bytes, which no Channel would send."""
    query = channel.query({"ask": "never"})
    assert isinstance(await query, dict)
    response: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    token = channel._await_response(response, envelope.read_response)
    assert token is not None
    channel._out.put(envelope.token_head(Kind.QUERY, token), data)
    return await response


def test_immediate_and_later_responses_find_their_queries(tmp_path: Path) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        gate = asyncio.Event()

        async def later(query: dict[str, Any]) -> dict[str, Any]:
            await gate.wait()
            return {"later": query["n"]}

        actor.handlers |= {"now": lambda query: {"now": query["n"]}, "later": later}
        held = channel.query({"ask": "later", "n": 1})
        assert await channel.query({"ask": "now", "n": "g\ud800\n"}) == {"now": "g\ud800\n"}
        assert await channel.call(envelope.write_context("h", "c", "p"), b"frame") == b"frame"
        assert not held.done()
        gate.set()
        assert await held == {"later": 1}

    run(tmp_path, scenario)


def test_a_query_without_a_handler_is_refused(tmp_path: Path) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        actor.handlers["known"] = lambda query: {}
        for name in ("other", None, 7, ["known"], "x" * 1000):
            (error,) = (await channel.query({"ask": name})).values()
            assert error.startswith("unknown query"), name
            assert len(error) < 150
        for data in (b"[]", b'"known"', b"", b"{", b"\xff", b"[" * 100_000):
            (error,) = (await raw(channel, data)).values()
            assert error.startswith("unknown query"), data[:10]
        (error,) = (await raw(channel, b" " * (envelope.QUERY_LIMIT_BYTES + 1))).values()
        assert "bytes" in error
        assert await channel.query({"ask": "known"}) == {}

    run(tmp_path, scenario)


def test_errors_of_a_handler_are_returned_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        async def late(query: dict[str, Any]) -> dict[str, Any]:
            await asyncio.sleep(0)
            raise KeyError("group")

        actor.handlers |= {
            "late": late,
            "raises": lambda query: {"n": 1 // 0},
            "not json": lambda query: {"what": object()},
            "nan": lambda query: {"lag": float("nan")},
        }
        with caplog.at_level(logging.ERROR):
            for name, error in {"late": "KeyError", "raises": "Zero", "not json": "TypeError", "nan": "Value"}.items():
                assert (await channel.query({"ask": name}))["error"].startswith(error)
        assert len([record for record in caplog.records if record.exc_info]) == 4
        assert await channel.query({"ask": "x"}) == {"error": "unknown query 'x'"}

    run(tmp_path, scenario)


def test_a_response_that_is_too_long_is_an_error_and_the_connection_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envelope, "RESPONSE_LIMIT_BYTES", 100)

    async def scenario(actor: Actor, channel: Channel) -> None:
        actor.handlers["long"] = lambda query: {"x": "y" * query["n"]}
        assert "limit is 100" in (await channel.query({"ask": "long", "n": 93}))["error"]
        assert await channel.query({"ask": "long", "n": 91}) == {"x": "y" * 91}

    run(tmp_path, scenario)


@pytest.mark.parametrize("query", [{"n": float("inf")}, {"n": object()}, {"n": "x" * envelope.QUERY_LIMIT_BYTES}])
def test_an_invalid_query_is_not_sent(tmp_path: Path, query: dict[str, Any]) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        with pytest.raises((TypeError, ValueError)):
            channel.query(query)

    run(tmp_path, scenario)


@pytest.mark.parametrize("how", ["the query is cancelled", "the gateway is gone"])
def test_a_response_that_is_no_longer_needed_is_cancelled(tmp_path: Path, how: str) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def forever(query: dict[str, Any]) -> dict[str, Any]:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return {}

        actor.handlers["forever"] = forever
        held = channel.query({"ask": "forever"})
        await begun.wait()
        if how == "the query is cancelled":
            held.cancel()
        else:
            channel.close()
        await cancelled.wait()

    run(tmp_path, scenario)


def test_a_lost_actor_fails_its_queries(tmp_path: Path) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        begun = asyncio.Event()

        async def forever(query: dict[str, Any]) -> dict[str, Any]:
            begun.set()
            await asyncio.Event().wait()
            return {}

        actor.handlers["forever"] = forever
        held = channel.query({"ask": "forever"})
        await begun.wait()
        actor.peers[0].close()
        with pytest.raises(ChannelLost):
            await held
        with pytest.raises(NotSent):
            await channel.query({"ask": "forever"})

    run(tmp_path, scenario)

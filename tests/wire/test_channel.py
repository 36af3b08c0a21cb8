"""The real internal socket: a server and channels over Unix domain sockets and TCP."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.actors.wire.internal import channel as channel_module
from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.channel import Channel, ChannelLost, OnResponse, connect
from muster.actors.wire.internal.envelope import SeenLease
from muster.actors.wire.internal.fetch import FetchRequest
from muster.actors.wire.internal.leases import MemberLease, Use
from muster.actors.wire.internal.listener import Peer, Server
from muster.actors.wire.internal.markers import Marker
from muster.actors.wire.internal.produce import ProduceRequest
from muster.actors.wire.internal.verification import VerifyRequest
from muster.placement.client import Context
from muster.placement.mapping.registration import Kind, Registration, Withdrawal
from muster.placement.view import Endpoint

_LONG_BYTES = 8 << 20
"""More than the system holds for a peer that reads nothing."""
CONTEXT = envelope.write_context("10.0.0.7", "1-5", "User:ANONYMOUS")
REGISTRATION = Registration(
    group="g",
    member_id="m",
    kind=Kind.MEMBER,
    client_id=None,
    host="::1",
    generation=3,
    partitions=frozenset({("t", 1), ("t", 0)}),
    offsets_partition=7,
    epoch=2,
    sequence=9,
)


class Echo:
    """Echoes a frame; holds back frames that request it until they are released."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.contexts: list[Context] = []
        self.held: dict[int, tuple[Peer, bytes]] = {}
        self.cancelled = asyncio.Event()
        self.peers: list[Peer] = []

    def request(self, peer: Peer, token: int, context: Context, frame: bytes) -> None:
        self.seen.append(frame)
        self.contexts.append(context)
        if frame.startswith(b"hold"):
            self.held[token] = (peer, frame)
        elif frame == b"lease":
            peer.send(envelope.lease_head(token, 1, 1), frame)
        else:
            peer.reply(token, frame)

    def query(self, peer: Peer, token: int, query: dict[str, Any]) -> None:
        peer.respond(token, query)

    def produce(self, peer: Peer, token: int, request: ProduceRequest) -> None:
        raise AssertionError("nothing is produced")

    def verify(self, peer: Peer, token: int, request: VerifyRequest) -> None:
        raise AssertionError("not sent")

    def markers(self, peer: Peer, token: int, markers: list[Marker]) -> None:
        raise AssertionError("no transaction ends")

    def fetch(self, peer: Peer, token: int, request: FetchRequest) -> None:
        raise AssertionError("nothing is fetched")

    def heartbeats_seen(self, peer: Peer, leases: list[SeenLease]) -> None:
        assert b"lease" in self.seen, "there are none"

    def lease_confirmed(self, peer: Peer, lease: int) -> None:
        raise AssertionError("there are none")

    def cancel(self, peer: Peer, token: int) -> None:
        del self.held[token]
        self.cancelled.set()

    def joined(self, peer: Peer) -> None:
        self.peers.append(peer)
        peer.send(envelope.write_updates(7, 2, (REGISTRATION,), snapshot=True))

    def left(self, peer: Peer) -> None:
        self.peers.remove(peer)


def run(tmp_path: Path, scenario: Callable[[Echo, Server, Endpoint], object]) -> None:
    async def main() -> None:
        echo = Echo()
        server = Server(echo, b"secret")
        endpoint = await server.start(node_id="here", host="127.0.0.1", path=tmp_path / "actor.sock")
        try:
            async with asyncio.timeout(20):
                await scenario(echo, server, endpoint)
        finally:
            await server.stop()

    asyncio.run(main())


def pause_reading(peer: Peer) -> None:
    transport = peer._out.transport
    assert transport is not None
    transport.pause_reading()


async def open_channel(endpoint: Endpoint, node_id: str = "here") -> Channel:
    return await connect(endpoint, node_id, on_updates=None, on_lost=lambda: None)


@pytest.mark.parametrize("node_id", ["here", "elsewhere"])
def test_responses_find_their_requests_in_any_order(tmp_path: Path, node_id: str) -> None:
    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        channel = await open_channel(endpoint, node_id)
        held = channel.call(CONTEXT, b"hold")
        rest = [channel.call(CONTEXT, b"%d" % number) for number in range(100)]
        assert await asyncio.gather(*rest) == [b"%d" % number for number in range(100)]
        assert echo.seen == [b"hold", *(b"%d" % number for number in range(100))]
        assert echo.contexts[0] == Context(client_id=None, host="10.0.0.7", connection="1-5")
        ((token, (peer, frame)),) = echo.held.items()
        peer.reply(token, frame)
        assert await held == b"hold"

    run(tmp_path, scenario)


@pytest.mark.parametrize("end", [Channel.close, partial(Channel.abort, why="silent")], ids=["close", "abort"])
def test_a_channel_that_is_closed_has_no_leases(tmp_path: Path, end: Callable[[Channel], None]) -> None:
    """At once: while the actor reads nothing, the connection is not lost yet."""

    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        leases: list[MemberLease] = []
        channel = await open_channel(endpoint)
        await channel.call(CONTEXT, b"lease", lambda lease, response: leases.append(lease))
        await channel.call(CONTEXT, b"behind the ping")
        assert leases[0].use(time.monotonic(), lambda: None) is Use.YES
        late = channel.call(CONTEXT, b"lease", lambda lease, response: leases.append(lease))
        late.add_done_callback(lambda _: late.cancelled() or late.exception())
        end(channel)
        channel._leased(next(reversed(channel._waiting)), 1, 2, b"it came with what closed the channel")
        assert [lease.use(time.monotonic(), lambda: None) for lease in leases] == [Use.NO, Use.NO]

    run(tmp_path, scenario)


def test_a_lost_actor_fails_what_waits_at_once(tmp_path: Path) -> None:
    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        lost = asyncio.Event()
        channel = await connect(endpoint, "here", on_updates=None, on_lost=lost.set)
        held = channel.call(CONTEXT, b"hold")
        await channel.call(CONTEXT, b"x")
        echo.peers[0].close()
        with pytest.raises(ChannelLost):
            await held
        await lost.wait()
        assert not channel.usable
        with pytest.raises(ChannelLost):
            await channel.call(CONTEXT, b"after")

    run(tmp_path, scenario)


def test_a_response_that_is_cut_off_in_its_token_closes_the_channel(tmp_path: Path) -> None:
    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        channel = await open_channel(endpoint)
        held = channel.call(CONTEXT, b"hold")
        await channel.call(CONTEXT, b"x")
        (token,) = echo.held
        echo.peers[0].send(envelope.token_head(envelope.Kind.RESPONSE, token << 24)[:2])
        with pytest.raises(ChannelLost):
            await held

    run(tmp_path, scenario)


def test_a_cancelled_call_is_cancelled_in_the_actor(tmp_path: Path) -> None:
    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        channel = await open_channel(endpoint)
        held = channel.call(CONTEXT, b"hold")
        await channel.call(CONTEXT, b"x")
        held.cancel()
        await echo.cancelled.wait()
        assert not echo.held

    run(tmp_path, scenario)


def test_a_request_without_a_response_fails_and_harms_no_other(tmp_path: Path) -> None:
    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        channel = await open_channel(endpoint)
        loop = asyncio.get_running_loop()
        failed: dict[int, float] = {}
        all_failed = asyncio.Event()

        def fails(number: int) -> OnResponse:
            def on_response(response: bytes | ChannelLost) -> None:
                assert isinstance(response, ChannelLost)
                failed[number] = loop.time()
                if len(failed) == len(timeouts):
                    all_failed.set()
                raise RuntimeError("whatever the caller does with it")

            return on_response

        timeouts = [0.3, 0.0, 1.4]
        began_s = loop.time()
        for number, timeout_s in enumerate(timeouts):
            channel.send(CONTEXT, b"hold", fails(number), timeout_s=timeout_s)
        answered: asyncio.Future[bytes | ChannelLost] = loop.create_future()
        channel.send(CONTEXT, b"x", answered.set_result, timeout_s=1e9)
        assert await answered == b"x"
        await all_failed.wait()
        assert all(failed[number] - began_s >= timeout_s for number, timeout_s in enumerate(timeouts))
        assert await channel.call(CONTEXT, b"y") == b"y"
        assert not echo.held, "the actor knows that they are given up"
        assert not channel._waiting, "nothing stays of what is answered or has failed"

    run(tmp_path, scenario)


@pytest.mark.parametrize("node_id", ["here", "elsewhere"])
def test_a_silent_actor_is_lost(tmp_path: Path, node_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is paused or cut off reads nothing, and closes nothing: what waits fails, and so does what is long."""
    monkeypatch.setattr(channel_module, "_TICK_S", 0.05)

    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        lost = asyncio.Event()
        channel = await connect(endpoint, node_id, on_updates=None, on_lost=lost.set)
        await channel.call(CONTEXT, b"x")
        pause_reading(echo.peers[0])
        answered: asyncio.Future[bytes | ChannelLost] = asyncio.get_running_loop().create_future()
        channel.send(CONTEXT, bytes(_LONG_BYTES), answered.set_result, timeout_s=1e9)
        with pytest.raises(ChannelLost, match="the actor is silent"):
            await channel.call(CONTEXT, b"y")
        assert isinstance(await answered, ChannelLost)
        await lost.wait()
        assert not channel.usable

    run(tmp_path, scenario)


def test_an_actor_that_holds_a_request_is_not_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "_TICK_S", 0.02)

    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        channel = await open_channel(endpoint)
        held = channel.call(CONTEXT, b"hold")
        assert not (await asyncio.wait([held], timeout=0.5))[0]
        ((token, (peer, frame)),) = echo.held.items()
        peer.reply(token, frame)
        assert await held == b"hold"

    run(tmp_path, scenario)


def test_a_pause_of_the_gateway_is_not_held_against_the_actor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "_TICK_S", 0.1)

    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        channel = await open_channel(endpoint)
        held = channel.call(CONTEXT, b"hold")
        await channel.call(CONTEXT, b"x")
        for _ in range(3):
            until_s = time.monotonic() + 0.5
            while time.monotonic() < until_s:
                pass  # nothing of this process runs, as after SIGSTOP
            await channel.call(CONTEXT, b"y")
        ((token, (peer, frame)),) = echo.held.items()
        peer.reply(token, frame)
        assert await held == b"hold"

    run(tmp_path, scenario)


def test_what_waits_for_a_silent_actor_fails_at_once_when_it_is_dropped(tmp_path: Path) -> None:
    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        channel = await open_channel(endpoint)
        await channel.call(CONTEXT, b"x")
        pause_reading(echo.peers[0])
        held = channel.call(CONTEXT, bytes(_LONG_BYTES))
        await asyncio.sleep(0)
        channel.abort("it has a successor")
        with pytest.raises(ChannelLost, match="it has a successor"):
            await held

    run(tmp_path, scenario)


def test_a_peer_without_the_secret_is_refused(tmp_path: Path) -> None:
    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        impostor = Endpoint(
            node_id="here", host=endpoint.host, port=endpoint.port, path=endpoint.path, secret=b"guessed"
        )
        with pytest.raises(OSError):  # noqa: PT011 - any connection error will do
            await open_channel(impostor)
        reader, writer = await asyncio.open_unix_connection(endpoint.path)
        request = envelope.REQUEST_HEAD.pack(envelope.Kind.REQUEST, 1, len(CONTEXT)) + CONTEXT + b"not proven"
        writer.write(len(request).to_bytes(4, "big") + request)
        await reader.read()  # until the server closes
        writer.close()
        assert echo.seen == []
        assert echo.peers == []

    run(tmp_path, scenario)


def test_strangers_do_not_flood_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The TCP port is open to any host on the network."""

    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        for _ in range(10):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            writer.write((50).to_bytes(4, "big") + b"x" * 50)
            await reader.read()
            writer.close()
        (line,) = caplog.messages
        assert line == "internal connection of 127.0.0.1 closed: a peer without the cluster's secret"

    run(tmp_path, scenario)
    assert caplog.messages[1].startswith("and 9 more from 127.0.0.1")


def test_updates_arrive_before_the_responses_that_follow_them(tmp_path: Path) -> None:
    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        heard: list[object] = []
        channel = await connect(endpoint, "here", on_updates=lambda *update: heard.append(update), on_lost=lambda: None)
        gone = Withdrawal(group="g", member_id="m", offsets_partition=7, epoch=2, sequence=10)
        await channel.call(CONTEXT, b"x")
        echo.peers[0].send(envelope.write_updates(7, 2, (gone,), snapshot=False))
        await channel.call(CONTEXT, b"y")
        assert heard == [(7, 2, (REGISTRATION,), True), (7, 2, (gone,), False)]

    run(tmp_path, scenario)


def test_a_peer_that_proves_nothing_may_send_nothing_long(tmp_path: Path) -> None:
    async def scenario(echo: Echo, server: Server, endpoint: Endpoint) -> None:
        reader, writer = await asyncio.open_unix_connection(endpoint.path)
        writer.write((1 << 28).to_bytes(4, "big"))
        challenge = await reader.read()  # to the end: the server closes
        assert len(challenge) == 4 + 1 + envelope.NONCE_BYTES
        writer.close()
        assert echo.peers == []

    run(tmp_path, scenario)


def test_an_actor_listens_within_its_range_of_ports(tmp_path: Path) -> None:
    async def listen() -> None:
        with contextlib.ExitStack() as stack:
            taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
            ports = [held.getsockname()[1] for held in taken]
            server = Server(Echo(), b"secret")
            with pytest.raises(OSError, match=f"all ports from {ports[0]} to {ports[-1]} of 127.0.0.1 are taken"):
                await server.start(node_id="here", host="127.0.0.1", path=tmp_path / "actor.sock", ports=ports)
            await server.stop()
            taken[1].close()
            endpoint = await server.start(node_id="here", host="127.0.0.1", path=tmp_path / "actor.sock", ports=ports)
            assert endpoint.port == ports[1]
            await server.stop()

    asyncio.run(listen())

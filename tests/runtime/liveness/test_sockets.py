"""Pings over the internal socket, of a real listener that serves, hangs, ends and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from muster.actors.runtime.liveness.sockets import SocketPings
from muster.actors.wire.internal.listener import Peer, Server
from muster.placement.view import Endpoint
from tests.wire.test_channel import Echo

ENOUGH_S, SOON_S = 20.0, 0.05


def run(folder: Path, scenario: Callable[[Server, Endpoint, Echo], Awaitable[None]]) -> None:
    async def main() -> None:
        echo = Echo()
        server, endpoint = await listening(folder, echo)
        try:
            async with asyncio.timeout(ENOUGH_S):
                await scenario(server, endpoint, echo)
        finally:
            await server.stop()

    asyncio.run(main())


async def listening(folder: Path, echo: Echo) -> tuple[Server, Endpoint]:
    server = Server(echo, b"secret")
    return server, await server.start(node_id="here", host="127.0.0.1", path=folder / "socket")


@pytest.mark.parametrize("node_id", ["here", "elsewhere"])
def test_pings_have_one_connection(tmp_path: Path, node_id: str) -> None:
    async def scenario(server: Server, endpoint: Endpoint, echo: Echo) -> None:
        pings = SocketPings(endpoint, node_id)
        assert [await pings.answered(ENOUGH_S) for _ in range(3)] == [True] * 3
        assert len(echo.peers) == 1
        assert not echo.peers[0].is_gateway
        pings.close()

    run(tmp_path, scenario)


def test_one_that_hangs_does_not_respond_in_time_and_does_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Server, endpoint: Endpoint, echo: Echo) -> None:
        pings = SocketPings(endpoint, "here")
        assert await pings.answered(ENOUGH_S)
        with monkeypatch.context() as hanging:
            hanging.setattr(Peer, "_receive", lambda peer, message: None)
            assert not await pings.answered(SOON_S)
        assert await pings.answered(ENOUGH_S)
        pings.close()

    run(tmp_path, scenario)


def test_its_end_is_noticed_at_once_and_its_successor_responds(tmp_path: Path) -> None:
    async def scenario(server: Server, endpoint: Endpoint, echo: Echo) -> None:
        pings = SocketPings(endpoint, "here")
        assert await pings.answered(ENOUGH_S)
        await server.stop()
        assert not await pings.answered(ENOUGH_S)
        successor, _ = await listening(tmp_path, echo)
        assert await pings.answered(ENOUGH_S)
        await successor.stop()
        pings.close()

    run(tmp_path, scenario)


def test_a_ping_that_waits_ends_with_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Server, endpoint: Endpoint, echo: Echo) -> None:
        pings = SocketPings(endpoint, "here")
        assert await pings.answered(ENOUGH_S)
        monkeypatch.setattr(Peer, "_receive", lambda peer, message: peer.close())
        assert not await pings.answered(ENOUGH_S)

    run(tmp_path, scenario)

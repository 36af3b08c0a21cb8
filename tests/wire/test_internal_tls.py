"""Sockets between nodes with TLS: keys from the cluster's secret, and no one else gets in."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from muster.actors.wire.internal.channel import Channel, connect
from muster.actors.wire.internal.listener import Server
from muster.actors.wire.sockets.options import internal_tls
from muster.placement.view import Endpoint
from tests.wire.test_channel import CONTEXT, Echo

SECRET, OTHER = b"the secret of the cluster", b"another secret"


@pytest.fixture
def runner(caplog: pytest.LogCaptureFixture) -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as running:
        yield running
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def listening(tmp_path: Path) -> tuple[Server, Endpoint]:
    server = Server(Echo(), SECRET)
    return server, await server.start(node_id="n1", host="127.0.0.1", path=tmp_path / "s", tls=True)


async def connected(endpoint: Endpoint, node_id: str) -> Channel:
    return await connect(endpoint, node_id, on_updates=None, on_lost=lambda: None)


async def _until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - the log has no event
        await asyncio.sleep(0.01)


def test_large_frames_between_nodes(runner: asyncio.Runner, tmp_path: Path) -> None:
    async def work() -> None:
        server, endpoint = await listening(tmp_path)
        for node_id in ("n1", "n2"):
            channel = await connected(endpoint, node_id)
            frames = [b"a", os.urandom(3 << 20), b"b" * 100]
            assert await asyncio.gather(*(channel.call(CONTEXT, frame) for frame in frames)) == frames
            channel.close()
        await server.stop()

    runner.run(work())


def test_nothing_is_readable_on_the_way(runner: asyncio.Runner, tmp_path: Path) -> None:
    async def work() -> bytes:
        server, endpoint = await listening(tmp_path)
        seen = bytearray()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection(endpoint.host, endpoint.port)

            async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
                while data := await source.read(1 << 16):
                    seen.extend(data)
                    target.write(data)
                target.close()

            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(copy(reader, back), copy(there, writer))

        between = await asyncio.start_server(relay, "127.0.0.1", 0)
        port = between.sockets[0].getsockname()[1]
        channel = await connected(replace(endpoint, port=port), "n2")
        assert await channel.call(CONTEXT, b"the content of a record") == b"the content of a record"
        channel.close()
        between.close()
        await server.stop()
        return bytes(seen)

    seen = runner.run(work())
    assert len(seen) > 500
    assert b"the content of a record" not in seen


@pytest.mark.parametrize(
    ("change", "times"),
    [({"secret": OTHER}, 10), ({"tls": False}, 1)],
    ids=["another-secret", "plain"],
)
def test_no_one_else_gets_in(
    runner: asyncio.Runner,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: dict[str, bool],
    times: int,
) -> None:
    """However often they try, it is one line, and nothing is kept of them."""

    async def work() -> None:
        server, endpoint = await listening(tmp_path)
        for _ in range(times):
            with pytest.raises(OSError, match=r".*"):
                await connected(replace(endpoint, **change), "n2")  # type: ignore[arg-type]
        await asyncio.wait_for(_until(lambda: caplog.records), 10)
        (line,) = {each.getMessage() for each in caplog.records}
        found = re.fullmatch(
            r"internal connection of 127\.0\.0\.1 closed: no TLS with the cluster's secret \((.*)\)", line
        )
        assert found, line
        assert found[1].startswith(("closed in the middle of the handshake", "ssl handshake is taking longer"))
        assert server._peers == set()
        channel = await connected(endpoint, "n2")
        assert await channel.call(CONTEXT, b"a") == b"a"
        channel.close()
        await server.stop()

    runner.run(work())


def test_a_server_of_another_cluster_is_not_trusted(runner: asyncio.Runner, tmp_path: Path) -> None:
    async def work() -> None:
        server = await asyncio.get_running_loop().create_server(
            asyncio.Protocol, "127.0.0.1", 0, ssl=internal_tls(OTHER, is_server=True)
        )
        port = server.sockets[0].getsockname()[1]
        endpoint = Endpoint(node_id="n1", host="127.0.0.1", port=port, path="", secret=SECRET, tls=True)
        with pytest.raises(ssl.SSLError):
            await connected(endpoint, "n2")
        server.close()

    runner.run(work())

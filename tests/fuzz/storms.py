"""``python -m tests.fuzz.storms``: many connections that do little or nothing, and what they cost the gateway.

Half-open ones (a part of a frame, then nothing), ones that send a byte at a time, ones that do not read what they
requested, and ones that come with a bad frame and are closed, as fast as they can. Prints memory, the times of a client
that behaves, and the lines of the log.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from muster.actors.wire.kafka import codec
from muster.placement.view import Topic
from tests.fuzz.canary import quantiles, seconds
from tests.fuzz.child import Child
from tests.fuzz.target import CANARY_TOPIC, METADATA, prepare
from tests.gateway.apis.test_data_apis import FETCH, fetch_body, produce
from tests.gateway.serving import Client
from tests.log.support import client_batch

_CONNECTING = 200
"""At a time."""
_HOLD_S = 5.0


class Storms:
    """The connections of one kind at a time, against one gateway."""

    def __init__(self, target: Child, canary: Child) -> None:
        self._target = target
        self._canary = canary
        self._port = int(target.ready["plain"])
        self._readers: list[asyncio.StreamReader] = []

    def measure(self, name: str, began_bytes: int, number: int) -> None:
        """Print what it cost since the last report."""
        times = quantiles(seconds(self._canary.report()))
        grown = self._target.rss_bytes - began_bytes
        click.echo(
            f"storms: {number:,} {name}: memory +{grown >> 20} MB ({grown // max(number, 1):,} bytes each), "
            f"canary p50 {times.p50:.1f} ms, p99 {times.p99:.1f} ms, longest {times.longest:.0f} ms"
        )

    async def within(self, seconds: float, storm: Coroutine[Any, Any, None]) -> None:
        """One storm, or what of it happens in that time."""
        try:
            async with asyncio.timeout(max(seconds, 1)):
                await storm
        except TimeoutError:
            click.echo("storms: this one was cut off, its time was over")

    async def open(self, number: int, first: bytes, receive_bytes: int | None = None) -> list[asyncio.StreamWriter]:
        """So many connections that have sent these bytes; ``receive_bytes``: how much each receives unread."""
        opened: list[asyncio.StreamWriter] = []
        for start in range(0, number, _CONNECTING):
            count = min(_CONNECTING, number - start)
            pairs = await asyncio.gather(*(self._connect(first, receive_bytes) for _ in range(count)))
            opened += pairs
        return opened

    async def _connect(self, first: bytes, receive_bytes: int | None) -> asyncio.StreamWriter:
        own = socket.socket()
        own.setblocking(False)
        if receive_bytes is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=own, limit=1024)
        self._readers.append(reader)  # without it, the stream would read, and drop what it reads
        writer.write(first)
        return writer

    async def hold(
        self, name: str, number: int, first: bytes, then: bytes = b"", receive_bytes: int | None = None
    ) -> None:
        """Open them, and send a byte of ``then`` each second; close them after a while."""
        self._canary.report()
        began_bytes = self._target.rss_bytes
        opened = await self.open(number, first, receive_bytes)
        ends_s = time.monotonic() + _HOLD_S
        for at in range(10_000):
            if time.monotonic() > ends_s:
                break
            for writer in opened:
                writer.write(then[at : at + 1])
            await asyncio.sleep(1)
        self.measure(name, began_bytes, number)
        for writer in opened:
            writer.transport.abort()
        self._readers.clear()

    async def bad(self, number: int) -> None:
        """Open connections with a bad frame, each closed by the gateway before the next."""
        self._canary.report()
        began_bytes, began_s = self._target.rss_bytes, time.monotonic()
        left = iter(range(number))

        async def come() -> None:
            for _ in left:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                writer.write(b"\0\0\0\x08\x03\xe7\0\0\0\0\0\1")
                await reader.read()
                writer.close()

        await asyncio.gather(*(come() for _ in range(50)))
        self.measure(f"bad connections in {time.monotonic() - began_s:.0f} s", began_bytes, number)


@click.command()
@click.option("--open", "held", default=500, show_default=True, help="Half-open connections; needs descriptors.")
@click.option("--readers", default=100, show_default=True, help="Connections that do not read.")
@click.option("--large", default=50, show_default=True, help="Connections that do not read a response of 54 MB.")
@click.option("--bad", default=5_000, show_default=True, help="Connections with a bad frame.")
@click.option("--seconds", default=120.0, show_default=True, help="At most, once the gateway serves.")
def main(held: int, readers: int, large: int, bad: int, seconds: float) -> None:
    """Measure each kind."""
    with tempfile.TemporaryDirectory(prefix="muster-storms-") as folder:
        target = Child("tests.fuzz.target", folder)
        try:
            _measure(target, Path(folder), held, readers, large, bad, seconds)
        finally:
            target.stop()


def _measure(target: Child, folder: Path, held: int, readers: int, large: int, bad: int, seconds: float) -> None:
    with Client(int(target.ready["plain"])) as client:
        prepare(client)
    canary = Child("tests.fuzz.canary", "127.0.0.1", str(target.ready["plain"]))
    storms = Storms(target, canary)
    try:
        time.sleep(_HOLD_S)
        storms.measure("connections", target.rss_bytes, 0)
        frame = codec.encode_request(codec.API_VERSIONS, 0, 1, "slow", {})
        sized = len(frame).to_bytes(4, "big") + frame
        ends_s = time.monotonic() + seconds
        for storm in (
            storms.hold("half-open connections", held, sized[:6]),
            storms.hold("connections with a byte per second", held, sized[:2], sized[2:] + sized * 100),
            storms.hold("connections that do not read", readers, _fetch(target, 1) * 20),
            storms.hold("connections that do not read 54 MB", large, _fetch(target, 60, partition=2) * 20, b"", 4096),
            storms.bad(bad),
        ):
            asyncio.run(storms.within(ends_s - time.monotonic(), storm))
    finally:
        canary.stop()
    found = target.report()
    lines = (folder / "log").read_text().splitlines()
    click.echo(f"storms: {len(lines)} lines in the log, {len(found)} problems: {found[:5]}")


def _fetch(target: Child, batches: int, partition: int = 1) -> bytes:
    """Return a Fetch, sized, whose response has that many batches of 900,000 bytes."""
    with Client(int(target.ready["plain"])) as client:
        flags = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        wanted = [{"topic_id": None, "name": CANARY_TOPIC}]
        (found,) = client.exchange(METADATA, 12, {"topics": wanted, **flags}).topics
        topic = Topic(name=CANARY_TOPIC, topic_id=found.topic_id, partitions=3)
        for _ in range(batches):
            produce(client, (topic, partition, client_batch(1, value=bytes(900_000))))
    limits = {"partition_max_bytes": 1 << 30, "max_bytes": 1 << 30} if batches > 1 else {}
    frame = codec.encode_request(FETCH, 18, 1, "slow", fetch_body((topic, partition, 0), **limits))
    return len(frame).to_bytes(4, "big") + frame


if __name__ == "__main__":
    main()

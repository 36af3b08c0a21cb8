"""A load balancer for one gateway: forwards bytes after a PROXY protocol header with an address of its choice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.gateway.listener.proxy_protocol import Source, write_header


@asynccontextmanager
async def balancer(to_port: int, client: Source) -> AsyncIterator[int]:
    """Yield the port on which it listens inside the block; it reports every client as being at ``client``."""
    running: set[asyncio.Task[None]] = set()
    header = write_header(client, Source("10.255.0.1" if "." in client.host else "2001:db8::ff", 9092))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", to_port)
        there_writer.write(header)
        try:
            await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))
        except asyncio.CancelledError:
            pass  # the test has ended; asyncio would log a cancelled handler as an error
        finally:
            writer.close()
            there_writer.close()
            running.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()

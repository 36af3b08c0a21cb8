"""``python -m benchmarks.fetching.sessions``: the cost of a Fetch of many partitions, with and without a session.

One consumer has one Fetch at a time under way, of partitions that one log actor owns. Either none has records, or one
of them has one batch. Without a session each request names all partitions; with one (KIP-227) those that changed. The
gateway and the log actor are processes of their own.
"""

from __future__ import annotations

import asyncio
import tempfile
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import psutil
import uvloop

from benchmarks.cluster import machine
from benchmarks.fetching.cost import cpu_s, log_process, new_gateway, reaches_log, start, until_closed
from benchmarks.report import Figures, output, output_options
from muster.actors.log.format.records import build_batch
from muster.actors.runtime.process import now_ms
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import Endpoint, Topic
from tests.raw_client import Connection, open_connection, request

_PRODUCE, _FETCH = (0, 9), (1, 13)
_HOST = "127.0.0.1"
_SIZES = (1, 10, 100)
_TOPICS = {f"of-{size}": Topic(name=f"of-{size}", topic_id=UUID(int=size), partitions=size) for size in _SIZES}
_BATCHES, _BATCH_BYTES = 500, 1024
_END_S = 10


def _gateway_process(folder: Path, log: Endpoint, pipe: Pipe) -> None:
    async def serve() -> None:
        gateway = new_gateway(folder / "gateway", log, _TOPICS)
        port = await gateway.listen(_HOST, 0)
        await reaches_log(gateway)
        pipe.send(port)
        await asyncio.to_thread(until_closed, pipe)
        await gateway.stop()

    uvloop.run(serve())


class _Consumer:
    """Fetches all partitions of a topic, again and again, and may read the first one forward."""

    def __init__(self, connection: Connection, topic: Topic, *, has_session: bool) -> None:
        self._connection = connection
        self._topic = topic
        self._has_session = has_session
        self._session_id = 0
        self._epoch = 0 if has_session else -1

    async def fetch(self, offset: int, *, is_new: bool = True) -> None:
        """Fetch the first partition from there, the others from their end; ``is_new``: unlike before."""
        partitions = range(self._topic.partitions)
        if self._session_id:
            partitions = range(1 if is_new else 0)
        items = [
            {"partition": each, "fetch_offset": 0 if each else offset, "partition_max_bytes": _BATCH_BYTES}
            for each in partitions
        ]
        body: dict[str, Any] = {
            "max_wait": 0,
            "min_bytes": 1,
            "session_id": self._session_id,
            "session_epoch": self._epoch,
            "topics": [{"topic_id": self._topic.topic_id, "partitions": items}] if items else [],
            "forgotten_topics_data": [],
        }
        frame = await self._connection.call_raw(request(_FETCH, body))
        if self._has_session:
            _, response = codec.decode_response(*_FETCH, frame)
            if response.error_code is not ErrorCode.none:
                raise RuntimeError(f"Fetch is answered {response.error_code.name}")
            self._session_id, self._epoch = response.session_id, self._epoch + 1


async def _measure(port: int, processes: dict[str, psutil.Process], rounds: int, figures: Figures) -> None:
    connection = await open_connection(_HOST, port, client_id="bench", local_host=_HOST)
    for topic in _TOPICS.values():
        await _fill(connection, topic)
        for has_session in (False, True):
            for reads in (False, True):
                consumer = _Consumer(connection, topic, has_session=has_session)
                await consumer.fetch(_BATCHES)
                for _ in range(2):
                    await consumer.fetch(_BATCHES, is_new=False)
                before = {name: cpu_s(process) for name, process in processes.items()}
                for number in range(rounds):
                    await consumer.fetch(number % _BATCHES if reads else _BATCHES, is_new=reads)
                name = f"{topic.partitions} partitions, {'a batch of one' if reads else 'no records'}"
                kind = "with a session" if has_session else "without a session"
                for process, used_s in before.items():
                    used_us = (cpu_s(processes[process]) - used_s) / rounds * 1e6
                    figures.add(name, f"{kind}, {process}", used_us, "us")


async def _fill(connection: Connection, topic: Topic) -> None:
    """Append batches to the first partition, and open the others."""
    batch = bytes(build_batch([(None, bytes(_BATCH_BYTES - 100))], now_ms(), 0, -1))
    body = {"transactional_id": None, "acks": -1, "timeout": 10_000}
    data = [{"index": 0, "records": batch}]
    frame = request(_PRODUCE, {**body, "topic_data": [{"name": topic.name, "partition_data": data}]})
    for _ in range(_BATCHES):
        await connection.call_raw(frame)


@click.command()
@click.option("--fetches", default=2_000, show_default=True, help="Of each kind.")
@output_options
def main(fetches: int, json_file: Path | None, as_markdown: bool) -> None:
    """Measure the processor time of a Fetch, with a session and without one."""
    about, figures = machine(), Figures()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        folder = Path(name)
        log, log_server, log_pipe = start(log_process, folder, _TOPICS)
        port, gateway, pipe = start(_gateway_process, folder, log)
        processes = {"the gateway": psutil.Process(gateway.pid), "the log actor": psutil.Process(log_server.pid)}
        try:
            asyncio.run(_measure(port, processes, fetches, figures))
        finally:
            for process, its_pipe in ((gateway, pipe), (log_server, log_pipe)):
                its_pipe.close()
                process.join(_END_S)
    output(figures, about, json_file, as_markdown)


if __name__ == "__main__":
    main()

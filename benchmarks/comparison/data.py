"""Produce and Fetch."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.comparison import requests, topics
from benchmarks.comparison.load import Plan, Step, Take
from benchmarks.comparison.rows import Goal, Measure, Measured, Row, measured
from benchmarks.comparison.servers import Server

_KIB = 1024
_PARTITIONS = 8
_PRODUCERS = 8
_CONSUMERS = 10
_ROOM = 200
"""More than the bytes of a batch beside its record."""
_BATCHES = 64
"""In each partition that is read, of 64 KiB at most: 4 MiB."""

_ON_DISK = 512 << 20
"""Bytes of the partition that is read from disk."""
_EVICT_S = 0.1

Connections = list[tuple[str, list[Step]]]


@contextmanager
def sending(connections: Callable[[Server], Connections], muster: Server, kafka: Server) -> Iterator[Measure]:
    prepared = {server.name: connections(server) for server in (muster, kafka)}

    def measure(server: Server, seconds: float) -> Measured:
        return measured(server, Plan(prepared[server.name], seconds))

    yield measure


def producers(size: int, synced: bool, server: Server) -> Connections:
    """Return producers, each with a partition of its own."""
    server.sync(every_append=synced)
    topic = topics.create(server, _PARTITIONS)
    records = topics.batch(size)
    error_at = requests.produce_error_at(topic)
    return [
        (server.load_address, [Step(requests.produce(topic, number % _PARTITIONS, records), error_at)])
        for number in range(_PRODUCERS)
    ]


def consumers(size: int, batch: int, server: Server) -> Connections:
    """Return consumers that read one partition from start to end, again and again: ten groups of one topic."""
    server.sync(every_append=False)
    topic = topics.create(server, 1)
    count = max(_BATCHES, 4 * size // batch)
    topics.fill(server, topic, [0], batch, count)
    return [(server.load_address, _reads(topic, size, batch, count)) for _ in range(_CONSUMERS)]


def _tail(size: int, server: Server) -> Connections:
    """Return one producer, and consumers that wait for its records: each fetches from the last high watermark."""
    server.sync(every_append=False)
    topic = topics.create(server, 1)
    produce = Step(requests.produce(topic, 0, topics.batch(size)), requests.produce_error_at(topic))
    take = Take(requests.high_watermark_at(topic), 8, into=0, put_at=requests.fetch_offset_at(topic))
    fetch = Step(requests.fetch(topic, 0, 0, 1 << 20), requests.fetch_error_at(topic), take)
    return [(server.address, [produce]), *((server.address, [fetch]) for _ in range(_CONSUMERS))]


@contextmanager
def _from_disk(size: int, batch: int, muster: Server, kafka: Server) -> Iterator[Measure]:
    """Read partitions in order on each connection, from a place of its own; what was read leaves the page cache."""
    prepared, files = {}, {}
    for server in (muster, kafka):
        server.sync(every_append=False)
        topic = topics.create(server, 1)
        count = _ON_DISK // batch
        topics.fill(server, topic, [0], batch, count)
        steps = _reads(topic, size, batch, count)
        starts = [number * len(steps) // _CONSUMERS for number in range(_CONSUMERS)]
        prepared[server.name] = [(server.address, steps[start:] + steps[:start]) for start in starts]
        files[server.name] = server.segments(topic)
    os.sync()  # only pages that are on disk can leave the cache

    def measure(server: Server, seconds: float) -> Measured:
        with _evicted(files[server.name]):
            return measured(server, Plan(prepared[server.name], seconds))

    yield measure


def _reads(topic: str, size: int, batch: int, count: int) -> list[Step]:
    """Return fetches from the first of so many batches to the last, ``size`` bytes at a time."""
    each = size // batch
    error_at = requests.fetch_error_at(topic)
    return [
        Step(requests.fetch(topic, 0, offset, (batch + _ROOM) * each), error_at)
        for offset in range(0, count - each + 1, each)
    ]


@contextmanager
def _evicted(files: Sequence[Path]) -> Iterator[None]:
    """Drop the files' pages from the page cache again and again."""
    ended = threading.Event()
    opened = [os.open(path, os.O_RDONLY) for path in files]

    def evict() -> None:
        while not ended.wait(_EVICT_S):
            for file in opened:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    for file in opened:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    thread = threading.Thread(target=evict, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for file in opened:
            os.close(file)


def _produce(size: int, *, synced: bool) -> Row:
    kind = "synced" if synced else "not synced"
    return Row(
        f"produce-{size // _KIB}k" + ("" if synced else "-not-synced"),
        f"Produce of {size // _KIB} KiB, {_PRODUCERS} connections and partitions, {kind}",
        partial(sending, partial(producers, size, synced)),
        (Goal("per_second", at_least=1.5 if synced else 0.7),),
    )


def _fetch(size: int, batch: int, name: str) -> Row:
    return Row(
        f"fetch-{name}",
        f"Fetch of {size // _KIB:,} KiB in {size // batch} batches, {_CONSUMERS} connections, from the page cache",
        partial(sending, partial(consumers, size, batch)),
        (Goal("per_second", at_least=1),),
    )


ROWS = (
    *(_produce(size * _KIB, synced=synced) for size in (1, 16, 256) for synced in (True, False)),
    _fetch(16 * _KIB, 16 * _KIB, "16k"),
    _fetch(1024 * _KIB, 64 * _KIB, "1m"),
    Row(
        "fetch-disk",
        f"Fetch of 1,024 KiB in 16 batches, {_CONSUMERS} connections, from disk",
        partial(_from_disk, 1024 * _KIB, 64 * _KIB),
        (Goal("per_second", at_least=1),),
    ),
    Row(
        "fetch-tail",
        f"Fetch at the tail: {_CONSUMERS} connections wait for one producer of 16 KiB",
        partial(sending, partial(_tail, 16 * _KIB)),
        (Goal("mib_per_second", at_least=1),),
        steady="mib_per_second",
    ),
)

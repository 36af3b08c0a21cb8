"""``python -m benchmarks produce-checks``: the cost of checking a client's batch.

Processor time per batch, in one thread: of its header and CRC, and of all. The difference is that of decompression and
of a loop over the records' lengths, which makes sure that consumers can read them.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import click
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.cluster import machine
from benchmarks.report import Figures, output, output_options
from muster.actors.log.format.batch import check_client_batch
from muster.actors.log.format.client_batch import ClientBatch, Rules
from muster.actors.log.format.compression import CODEC_OF
from muster.actors.runtime.process import now_ms

_SHAPES = ((1, 1_024), (100, 1_024), (1_000, 100))
"""Records of a batch, and about how many bytes a value has."""
_HEADERS = [
    ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("type", b"com.example.Flight"),
]
_LIMIT_BYTES = 1 << 24
_RULES = Rules("t-0", _LIMIT_BYTES, needs_keys=False)
_WORDS = [
    "delayed",
    "departed",
    "arrived",
    "gate",
    "carrier",
    "origin",
    "destination",
    "scheduled",
    "cancelled",
    "diverted",
    "tail",
    "flight",
]


@click.command()
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(1), help="Of each figure; the median.")
@output_options
def main(rounds: int, json_file: Path | None, as_markdown: bool) -> None:
    """Measure the processor time of the checks of a batch."""
    about, figures = machine(), Figures()
    for count, value_bytes in _SHAPES:
        for name, codec in CODEC_OF.items():
            _measure(figures, f"{count:,} of {value_bytes:,} B, {name}", _batch(count, value_bytes, codec), rounds)
    for count, value_bytes in _SHAPES:
        content = _batch(count, value_bytes, CODEC_OF["uncompressed"], headers=True)
        _measure(figures, f"{count:,} of {value_bytes:,} B, uncompressed, two headers each", content, rounds)
    output(figures, about, json_file, as_markdown)


def _measure(figures: Figures, part: str, content: bytes, rounds: int) -> None:
    def check() -> None:
        client_batch = ClientBatch(content)
        client_batch.is_short()
        client_batch.check(_RULES)

    figures.add(part, "header and CRC", _cpu_us(lambda: check_client_batch(content, _LIMIT_BYTES), rounds), "us")
    figures.add(part, "all", _cpu_us(check, rounds), "us")


def _cpu_us(call: Callable[[], object], rounds: int) -> float:
    """Return the time of one call: the median of the rounds, of some 50 ms each."""
    took_us = []
    for _ in range(rounds):
        calls, began_s = 0, time.process_time()
        while (used_s := time.process_time() - began_s) < 0.05:
            call()
            calls += 1
        took_us.append(used_s / calls * 1e6)
    return statistics.median(took_us)


def _batch(count: int, value_bytes: int, codec: int, *, headers: bool = False) -> bytes:
    """Build a batch as a client does, of texts that compress as JSON does."""
    generator, time_ms = random.Random(count), now_ms()
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, _LIMIT_BYTES)
    for index in range(count):
        value = b"".join(_members(generator, int(value_bytes * generator.uniform(0.7, 1.3))))
        key = b"%d" % generator.randrange(10**6)
        builder.append(index, time_ms + index // 4, key, value, _HEADERS if headers else [])
    return bytes(builder.build())


def _members(generator: random.Random, size_bytes: int) -> list[bytes]:
    parts: list[bytes] = []
    while sum(map(len, parts)) < size_bytes:
        parts.append(json.dumps({generator.choice(_WORDS): generator.randrange(10**6)}).encode())
    return parts


if __name__ == "__main__":
    main()

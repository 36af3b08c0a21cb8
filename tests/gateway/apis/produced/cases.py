"""Batches for Produce, good and bad: the same to Muster and to Kafka, whose outcomes are in ``kafka_produced.json``.

``python -m tests.conformance.produced.record`` writes the file again; ``make ring-conformance`` checks that it is true.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from muster.actors.log.errors import CorruptMessage
from muster.actors.log.format.batch import iter_headers
from muster.actors.log.format.compression import GZIP, LZ4, NO_COMPRESSION, SNAPPY, ZSTD, compress
from muster.actors.log.format.records import read_records
from muster.actors.wire.kafka.codec import ErrorCode, field
from tests.gateway.apis.produced.batches import batch, header, record, varint
from tests.gateway.serving import Client
from tests.zookeeper_fixture import eventually

PRODUCE, FETCH, LIST_OFFSETS, CREATE_TOPICS = 0, 1, 2, 19
FILE = Path(__file__).with_name("kafka_produced.json")
CODECS = {"none": NO_COMPRESSION, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
TOPICS: Mapping[str, Mapping[str, str]] = {
    "plain": {"retention.ms": "-1"},
    "compacted": {"cleanup.policy": "compact"},
    "appended": {"message.timestamp.type": "LogAppendTime"},
    "recompressed": {"compression.type": "lz4", "retention.ms": "-1"},
    "bounded": {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "10000"},
    "unbounded": {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"},
}
_HOUR_MS, _FOR_EVER_MS = 3_600_000, 2**63 - 1
_RANDOM = random.Random(39).randbytes(200)
_LONG = b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"
_THREE = b"".join(map(record, range(3)))

Outcome = dict[str, Any]
"""``error``, ``message`` and ``records`` (KIP-467), or what is ``stored``."""


class Case(NamedTuple):
    name: str
    topic: str
    records: bytes
    version: int = 12


SOUND: Mapping[str, tuple[int, bytes]] = {
    "three records": (3, _THREE),
    "null key, value and header": (1, record(0, key=None, value=None, headers=varint(1) + header(b"h", None))),
    "empty key, value and header": (1, record(0, key=b"", value=b"", headers=varint(1) + header(b"", b""))),
    "long key, value and header": (1, record(0, key=_RANDOM, value=_RANDOM, headers=varint(1) + header(_RANDOM, b"h"))),
    "attributes of a record": (1, record(0, attributes=7)),
}
UNSOUND: Mapping[str, tuple[int, bytes]] = {
    "5 of 1": (5, record(0)),
    "2^30 of 1": (1 << 30, record(0)),
    "2^31-1 of 1": ((1 << 31) - 1, record(0)),
    "2 of 3": (2, _THREE),
    "1 of none": (1, b""),
    "a byte after the records": (3, _THREE + b"\0"),
    "random bytes": (1, _RANDOM),
    "zeros": (10, bytes(10)),
    "longer than its batch": (1, record(0, length=1000)),
    "a byte longer than its batch": (1, record(0, length=1)),
    "a byte shorter": (2, record(0, length=-1) + record(1)),
    "a byte longer than its fields": (2, record(0, length=1) + record(1)),
    "length of 0": (1, b"\0"),
    "negative length": (1, varint(-5) + record(0)[1:]),
    "negative length, all its bits but one right": (1, varint(-len(record(0))) + record(0)[1:]),
    "key longer than its record": (1, varint(8) + b"\0\0\0" + varint(100) + b"abcd"),
    "key up to the next record": (2, varint(8) + b"\0\0\0" + varint(12) + b"abcd" + record(1)),
    "negative key": (1, varint(6) + b"\0\0\0" + varint(-2) + varint(-1) + b"\0"),
    "negative value": (1, record(0, key=b"", value=None).replace(b"\0\1\0", b"\0\3\0")),
    "value longer than its record": (1, varint(8) + b"\0\0\0" + varint(-1) + varint(100) + b"abc"),
    "negative number of headers": (1, record(0, headers=varint(-1))),
    "more headers than bytes": (1, record(0, headers=varint(100))),
    "a header less": (1, record(0, headers=varint(2) + header(b"h", b"v"))),
    "null header key": (1, record(0, headers=varint(1) + header(None, b"v"))),
    "negative header value": (1, record(0, headers=varint(1) + header(b"h", b"")[:-1] + varint(-2))),
    "header longer than its record": (1, record(0, headers=varint(1) + header(b"h", b"")[:-1] + varint(50))),
    "a byte after the headers": (1, record(0, rest=b"x")),
    "length too long": (1, _LONG + record(0)[1:]),
    "timestamp too long": (1, varint(20) + b"\0" + _LONG + record(0)[3:]),
    "offset of six bytes": (1, varint(len(record(0)) + 4) + b"\0\0" + _LONG[:5] + b"\0" + record(0)[4:]),
    "offsets from 1": (2, record(1) + record(2)),
    "offsets twice": (2, record(0) + record(0)),
    "offsets back": (2, record(1) + record(0)),
    "offsets with a gap": (2, record(0) + record(5)),
    "negative offset": (1, record(-1)),
}
"""How many records the header says there are, and the records."""


def payload_cases(now_ms: int) -> Iterator[Case]:
    for name, (count, payload) in {**SOUND, **UNSOUND}.items():
        for codec in ("none", "lz4") if name in UNSOUND else CODECS:
            yield Case(f"{name}, {codec}", "plain", batch(payload, now_ms, count, codec=CODECS[codec]))
        for topic in ("compacted", "recompressed", "appended"):
            yield Case(f"{name}, {topic}", topic, batch(payload, now_ms, count))


def header_cases(now_ms: int) -> Iterator[Case]:
    changes: Mapping[str, Mapping[str, Any]] = {
        "count -1": {"count": -1, "last": -2},
        "count -1 of 1": {"count": -1, "last": 0},
        "count 0": {"count": 0, "last": 0},
        "last offset delta 5 of 1": {"last": 5},
        "last offset delta -1 of 1": {"last": -1},
        "control batch": {"attributes": 0x20},
        "control batch of a transaction": {"attributes": 0x30},
        "log append time": {"attributes": 0x08},
        "codec 5": {"attributes": 5},
        "unused attributes": {"attributes": 0x100},
        "no sequence": {"producer": (5, 0, -1)},
        "1 of 1 of an idempotent producer": {"producer": (5, 0, 0)},
        "5 of 1 of an idempotent producer": {"producer": (6, 0, 0), "count": 5},
    }
    for name, fields in changes.items():
        yield Case(name, "plain", batch(record(0), now_ms, **fields))
    for codec, number in CODECS.items():
        if number != NO_COMPRESSION:
            half = compress(number, _THREE * 100)
            half = half[: len(half) // 2]
            for name, packed in {"not": _RANDOM, "empty": b"", "half of": half}.items():
                yield Case(f"{name} {codec}", "plain", batch(b"", now_ms, codec=number, packed=packed))
    for magic in (0, 1, 3):
        content = bytearray(batch(record(0), now_ms))
        content[16] = magic
        yield Case(f"magic {magic}", "plain", bytes(content))


def record_cases(now_ms: int) -> Iterator[Case]:
    hundred = b"".join(record(delta, key=None if delta % 10 == 3 else b"k") for delta in range(100))
    keyless = record(0) + record(1, key=None)
    for version in (3, 7, 8, 12):
        yield Case(f"ten keyless of 100, v{version}", "compacted", batch(hundred, now_ms, 100), version)
    for codec, number in CODECS.items():
        yield Case(f"one keyless, {codec}", "compacted", batch(keyless, now_ms, 2, codec=number))
    yield Case("keyless and unsound", "compacted", batch(keyless + record(2, length=1), now_ms, 3))


def time_cases(now_ms: int) -> Iterator[Case]:
    late = record(0) + record(1, ms=2 * _HOUR_MS) + record(2, ms=3 * _HOUR_MS)
    keyless = record(0, key=None) + record(1, ms=2 * _HOUR_MS) + record(2, key=None, ms=2 * _HOUR_MS)
    for codec, number in CODECS.items():
        yield Case(f"two of the future, {codec}", "plain", batch(late, now_ms, 3, codec=number))
        for name, ms in {"later": now_ms + _HOUR_MS // 2, "for ever": _FOR_EVER_MS, "earlier": 0, "none": -1}.items():
            content = batch(_THREE, now_ms, 3, codec=number, max_ms=ms)
            yield Case(f"max timestamp {name}, {codec}", "plain", content)
    yield Case("keyless and of the future", "compacted", batch(keyless, now_ms, 3))
    for topic in ("appended", "recompressed"):
        yield Case(f"two of the future, {topic}", topic, batch(late, now_ms, 3))
        yield Case(f"max timestamp for ever, {topic}", topic, batch(_THREE, now_ms, 3, max_ms=_FOR_EVER_MS))
    times_ms = {
        "59 min ahead": now_ms + _HOUR_MS - 60_000,
        "61 min ahead": now_ms + _HOUR_MS + 60_000,
        "microseconds": now_ms * 1_000,
        "for ever": _FOR_EVER_MS,
        "5 s ahead": now_ms + 5_000,
        "15 s ahead": now_ms + 15_000,
        "30 s ago": now_ms - 30_000,
        "90 s ago": now_ms - 90_000,
        "1970": 0,
        "no time": -1,
        "before 1970": -2,
    }
    for topic in ("plain", "appended", "bounded", "unbounded"):
        for name, ms in times_ms.items():
            yield Case(f"{name}, {topic}", topic, batch(record(0, ms=ms - now_ms), now_ms, max_ms=ms))
        yield Case(f"overflow, {topic}", topic, batch(record(0, ms=_FOR_EVER_MS), now_ms, max_ms=_FOR_EVER_MS))


def cases(now_ms: int) -> list[Case]:
    return [*payload_cases(now_ms), *header_cases(now_ms), *record_cases(now_ms), *time_cases(now_ms)]


def played(client: Client, now_ms: int, named: Callable[[str], str]) -> dict[str, Outcome]:
    """Return the outcome of each case by its name. ``named``: the topic's name at the server."""
    return {case.name: _outcome(client, case, named(case.topic), now_ms) for case in cases(now_ms)}


def create_topics(client: Client) -> None:
    """Create them, and wait until the server's logs of them are there."""
    topics = [
        {
            "name": name,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        for name, configs in TOPICS.items()
    ]
    created = client.exchange(CREATE_TOPICS, 5, {"topics": topics, "timeout": 10_000, "validate_only": False})
    assert {topic.error_code for topic in created.topics} == {ErrorCode.none}
    queries = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in TOPICS]
    request = {"replica_id": -1, "isolation_level": 0, "topics": queries}

    def errors() -> set[ErrorCode]:
        found = client.exchange(LIST_OFFSETS, 6, request).topics
        return {each.error_code for topic in found for each in topic.partitions}

    eventually(lambda: errors() == {ErrorCode.none}, "all topics have a log")


def _outcome(client: Client, case: Case, topic: str, now_ms: int) -> Outcome:
    partition = {"index": 0, "records": case.records}
    request = {"transactional_id": None, "acks": -1, "timeout": 10_000}
    topic_data = [{"name": topic, "topic_id": None, "partition_data": [partition]}]
    ((result,),) = (
        each.partition_responses
        for each in client.exchange(PRODUCE, case.version, request | {"topic_data": topic_data}).responses
    )
    if result.error_code is ErrorCode.none:
        return {"stored": _stored(client, topic, result.base_offset, now_ms)}
    outcome = {"error": result.error_code.name}
    if not field(result, "record_errors", ()):
        return outcome
    errors = [[each.batch_index, _without_times(each.batch_index_error_message)] for each in result.record_errors]
    return outcome | {"message": result.error_message, "records": errors}


def _stored(client: Client, topic: str, offset: int, now_ms: int) -> list[Any]:
    """Codec, number of records, offsets and times, with the largest first, relative to those that were sent."""
    partitions = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1}]
    request = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "forgotten_topics_data": [],
        "rack_id": "",
        "topics": [{"topic": topic, "topic_id": None, "partitions": partitions}],
    }
    ((result,),) = (each.partitions for each in client.exchange(FETCH, 12, request).responses)
    _, head = next(iter_headers(result.records))
    try:
        records = list(read_records(result.records, head))
    except CorruptMessage:
        return [head.codec, head.record_count, "unreadable"]
    offsets, times_ms = [each.offset - offset for each in records], [each.timestamp_ms for each in records]
    times: Any = "appended"
    if not head.has_log_append_time:
        times = [_relative(ms, now_ms) for ms in (head.max_timestamp_ms, *times_ms)]
    return [head.codec, head.record_count, offsets, times]


def _relative(ms: int, now_ms: int) -> int | str:
    if ms > 2 * now_ms:
        return "far"
    return ms - now_ms if ms > _HOUR_MS else ms


def _without_times(text: str) -> str:
    """Remove times of the server's clock and of the client's."""
    return re.sub(r"-?\d{12,}", "TIME", text)


def recorded() -> dict[str, Outcome]:
    """Kafka's outcome of each case by its name."""
    found: dict[str, Outcome] = json.loads(FILE.read_text())
    return found


def record_outcomes(found: Mapping[str, Outcome]) -> None:
    """Write the file."""
    FILE.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in found) + "\n}\n")

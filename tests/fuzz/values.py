"""The bytes of single fields: those that a client would send, and those that only a hostile one would.

Both come encoded, so that a frame costs little more than choosing them. The valid ones are few, so that requests meet
in the same groups, topics and transactions.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from typing import NamedTuple
from uuid import UUID

from muster.actors.wire.kafka.schema import as_varint
from tests.fuzz.batches import HOSTILE_BATCHES, VALID_BATCHES

KEPT = 32
"""Learnt values of each field: older ones belong to members that are gone."""
TOPICS = ("fuzz-a", "fuzz-b", "fuzz-compacted", "fuzz-recompressed")
"""They exist when a run begins."""
_NAMES = ("x1", "x2", "x3")
"""Names of topics that the requests create and delete."""
_HOSTILE_TEXT = (
    b"",
    b".",
    b"..",
    b"../../../../tmp/fuzz",
    b"/",
    b"a/b",
    b"\0",
    b"a\nERROR b",
    b"%s%d{0}",
    b"\xff\xfe",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    "\u202e\U0001f4a3".encode(),
    b"__consumer_offsets",
    b"__transaction_state",
    b"__cluster_metadata",
    b"n" * 249,
    b"n" * 250,
    b"n" * 32_767,
)
_TEXTS: dict[str, tuple[str, ...]] = {
    "group": ("g1", "g2", "g3", "g4"),
    "topic": (*TOPICS, *_NAMES, "missing"),
    "transactional": ("tx1", "tx2", "tx3"),
    "instance": ("i1", "i2"),
    "protocol_type": ("consumer", "connect"),
    "protocol_name": ("range", "roundrobin"),
    "rack": ("", "r1"),
    "assignor": ("uniform", "range"),
    "regex": ("fuzz-.*", "(a+)+$", "["),
    "host": ("*", "127.0.0.1"),
    "principal": ("User:someone", "User:*"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "NONE"),
    "state": ("Stable", "Empty"),
    "software": ("fuzz", "1.0"),
    "config": ("retention.ms", "cleanup.policy", "compression.type", "max.message.bytes", "group.max.size", "odd"),
    "value": ("1", "60000", "compact", "delete", "gzip", "-1", "odd"),
    "entity": ("user", "client-id", "ip"),
}
_INT32 = (0, 1, -1, 2, -2, 127, 1 << 15, 1 << 20, (1 << 31) - 1, -(1 << 31), 0x7F7F7F7F)
_INTS: dict[str, tuple[int, ...]] = {
    "timeout": (0, 1, 5, 20, 6000),
    "wait": (0, 0, 0, 1, 5),
    "partition": (0, 1, 2),
    "index": (0, 1, 2),
    "partitions": (1, 2, 3),
    "replica": (-1,),
    "replication": (1, -1),
    "acks": (-1, -1, 1, 0),
    "offset": (0, 1, 5, -1, -2),
    "timestamp": (-1, -2, 0, 1_700_000_000_000),
    "epoch": (0, 1, -1),
    "generation": (1, 2, -1),
    "session": (0, 0, 1),
    "bytes": (1, 1000, 1 << 20),
    "type": (0, 1, 2, 3, 4),
    "operation": (0, 1, 2, 3),
    "sequence": (0, 1),
}


class Choices(NamedTuple):
    """Encoded values; ``valid`` may be extended by what responses teach."""

    valid: list[bytes]
    hostile: list[bytes]


class Values:
    """The choices of each field, by its name, type and whether the message is flexible."""

    def __init__(self, topic_ids: list[UUID]) -> None:
        self._topic_ids = topic_ids
        self._known: dict[tuple[str, str, bool], Choices] = {}
        self._learned: Counter[tuple[str, str, bool]] = Counter()
        """How many of a field's valid choices are learnt: the last ones."""

    def choices(self, name: str, kind: str, flexible: bool) -> Choices:
        key = (name, kind, flexible)
        if key not in self._known:
            self._known[key] = self._make(name, kind, flexible)
        return self._known[key]

    def learn(self, name: str, value: str | int) -> None:
        """Learn a value that the service has handed out: a member id, an epoch, a producer id.

        The newest few are kept.
        """
        for key, known in self._known.items():
            field, kind, flexible = key
            if name not in field or (kind == "string") != isinstance(value, str):
                continue
            if self._learned[key] == KEPT:
                del known.valid[-KEPT]
                self._learned[key] -= 1
            known.valid.append(_encoded(value, kind, flexible))
            self._learned[key] += 1

    def _make(self, name: str, kind: str, flexible: bool) -> Choices:
        if kind == "string":
            valid = [_text(each.encode(), flexible) for each in _texts(name)]
            hostile = [_text(each, flexible) for each in _HOSTILE_TEXT]
            return Choices(valid, [*hostile, *_lies(flexible, b"abc", 2)])
        if kind == "bytes":
            valid = [_sized(each, flexible) for each in (b"", b"\0\0", b"\0\0\0\1\0\6fuzz-a\0\0\0\0")]
            return Choices(valid, [_sized(b"\xff" * 300, flexible), *_lies(flexible, b"abc", 4)])
        if kind == "records":
            valid = [_sized(each, flexible) for each in VALID_BATCHES]
            hostile = [_sized(each, flexible) for each in HOSTILE_BATCHES]
            return Choices(valid, [*hostile, *_lies(flexible, VALID_BATCHES[0], 4)])
        if kind == "uuid":
            odd = [bytes(16), b"\xff" * 16, b"\0" * 15 + b"\1"]
            return Choices([*(each.bytes for each in self._topic_ids), bytes(16)], odd)
        if kind == "float64":
            values = (math.nan, math.inf, -math.inf, -1.0, 0.0, 5e-324, 1.7e308)
            return Choices([struct.pack(">d", 1e9)], [struct.pack(">d", each) for each in values])
        if kind == "bool":
            return Choices([b"\0", b"\1"], [b"\2", b"\xff"])
        return _integers(name, _BYTES[kind])


class Extremes(Values):
    """Valid ones, but for numbers: those are the least and the greatest of their type, and near the limits of kio."""

    def _make(self, name: str, kind: str, flexible: bool) -> Choices:
        if kind not in _BYTES:
            return super()._make(name, kind, flexible)
        size = _BYTES[kind]
        near = _NEAR_LIMITS if size == 8 else ()
        limits = {each % (1 << 8 * size) for each in (1 << 8 * size - 1, (1 << 8 * size - 1) - 1, *near)}
        choices = [each.to_bytes(size, "big") for each in sorted(limits)]
        return Choices(choices, choices)


_NEAR_LIMITS = (9_223_372_036_854_776, -9_223_372_036_854_776, 253_402_300_800_000, 1 << 53)
"""In ms: of timedelta64 and datetime64 in microseconds, of the year 9999, of a double."""
_BYTES = {
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}


def _integers(name: str, size: int) -> Choices:
    valid = next((ints for word, ints in reversed(_INTS.items()) if word in name), (0, 1, 2))
    limits = {each & (1 << 8 * size) - 1 for each in (*_INT32, (1 << 8 * size - 1) - 1, 1 << 8 * size - 1)}
    return Choices(
        [(each & (1 << 8 * size) - 1).to_bytes(size, "big") for each in valid],
        [each.to_bytes(size, "big") for each in sorted(limits)],
    )


def _texts(name: str) -> tuple[str, ...]:
    if name in ("name", "resource_name", "key", "value", "member_id"):
        return {
            "name": (*TOPICS[:2], *_NAMES[:1], "range", "retention.ms"),
            "resource_name": (*TOPICS[:2], "g1", "1", ""),
            "key": ("g1", "g2", "tx1"),
            "value": _TEXTS["value"],
            "member_id": ("", "", "m1"),
        }[name]
    return next((texts for word, texts in _TEXTS.items() if word in name), ("", "a"))


def _text(text: bytes, flexible: bool) -> bytes:
    return as_varint(len(text) + 1) + text if flexible else len(text).to_bytes(2, "big") + text


def _sized(content: bytes, flexible: bool) -> bytes:
    return as_varint(len(content) + 1) + content if flexible else len(content).to_bytes(4, "big") + content


def _lies(flexible: bool, content: bytes, prefix_bytes: int) -> list[bytes]:
    """Null, and lengths that are not that of the content."""
    if flexible:
        compact = (0, 1, len(content), len(content) + 2, 32_769, (1 << 31) - 1, (1 << 32) - 1, 1 << 34)
        return [b"\0", *(as_varint(each) + content for each in compact), b"\xff" * 9 + content]
    limit = (1 << 8 * prefix_bytes - 1) - 1
    lengths = (-1, -2, 0, len(content) + 1, limit, -limit - 1)
    return [
        b"\xff" * prefix_bytes,
        *(each.to_bytes(prefix_bytes, "big", signed=True) + content for each in lengths),
    ]


def _encoded(value: str | int, kind: str, flexible: bool) -> bytes:
    if isinstance(value, str):
        return _text(value.encode(), flexible)
    return value.to_bytes(_BYTES[kind], "big", signed=True)

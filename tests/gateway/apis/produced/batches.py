"""Record batches byte by byte, sound or not, with a right length and CRC in any case."""

from __future__ import annotations

from muster.actors.log.format.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, NO_PRODUCER, NO_SEQUENCE, seal
from muster.actors.log.format.compression import NO_COMPRESSION, compress


def varint(value: int) -> bytes:
    """Zigzag, of 64 bits."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def header(name: bytes | None, content: bytes | None) -> bytes:
    return field(name) + field(content)


def record(
    offset_delta: int,
    *,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    ms: int = 0,
    length: int = 0,
    attributes: int = 0,
    headers: bytes = b"\0",
    rest: bytes = b"",
) -> bytes:
    """``ms``: the timestamp delta; ``length``: how much more than its bytes it says; ``headers``: with their number."""
    body = bytes((attributes,)) + varint(ms) + varint(offset_delta) + field(key) + field(value) + headers + rest
    return varint(len(body) + length) + body


def batch(
    payload: bytes,
    now_ms: int,
    count: int = 1,
    *,
    codec: int = NO_COMPRESSION,
    last: int | None = None,
    attributes: int = 0,
    max_ms: int | None = None,
    packed: bytes | None = None,
    producer: tuple[int, int, int] = (NO_PRODUCER, -1, NO_SEQUENCE),
) -> bytes:
    """``packed``: in place of the compressed payload."""
    content = bytearray(HEADER_BYTES) + (compress(codec, payload) if packed is None else packed)
    last_offset_delta = count - 1 if last is None else last
    times = (now_ms, now_ms if max_ms is None else max_ms)
    length = len(content) - LENGTH_OVERHEAD
    HEADER.pack_into(content, 0, 0, length, -1, 2, 0, codec | attributes, last_offset_delta, *times, *producer, count)
    seal(content)
    return bytes(content)

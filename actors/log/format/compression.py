"""Kafka's codecs of record batches: none, gzip, snappy, lz4, zstd, in the framing of Kafka's Java client."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable

import cramjam

from muster.actors.log.errors import CorruptMessage, LogError, UnsupportedCompression
from muster.actors.wire.kafka.framing import Buffer

NO_COMPRESSION, GZIP, SNAPPY, LZ4, ZSTD = CODECS = range(5)
"""Codecs, by the lowest bits of a batch's attributes."""
PRODUCER = "producer"
"""compression.type: a batch keeps its producer's compression."""
CODEC_OF = {"uncompressed": NO_COMPRESSION, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
"""The other values of compression.type."""
MAX_RECORDS_BYTES = 64 << 20
"""The limit of decompressed records per batch of a client: a batch of a few kilobytes may hold gigabytes. Beyond
AT_ONCE_BYTES, a log actor has three at a time at most: one is checked, one gets another codec, one is cleaned."""
MAX_STORED_RECORDS_BYTES = 256 << 20
"""The limit of a batch that is stored. It is larger: the cleaner makes records longer, and a client's batch that was
not compressed, which ``max.message.bytes`` alone limits, may be stored compressed."""
AT_ONCE_BYTES = 1 << 20
"""Decompressed in an event loop: in a few milliseconds. With this limit, decompression is fastest."""

_ZLIB_DEFAULT, _LZ4_FAST, _ZSTD_DEFAULT = -1, 9, 3
"""Kafka's defaults of the levels: zlib's own, lz4's fast compressor in place of the 9 of lz4hc, zstd's own."""

_NO_ROOM = "failed to write whole buffer"
"""Rust's message for an output that is full."""
_SNAPPY_MAX_RATIO = 22
"""Its shortest element takes three bytes for 64."""
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS = bytes((0, 0, 0, 1)) * 2
_XERIAL_HEADER_BYTES = len(_XERIAL_MAGIC + _XERIAL_VERSIONS)
_XERIAL_BLOCK_BYTES = 32 << 10


class DecompressedTooLarge(CorruptMessage):
    """The records exceed the limit when decompressed."""


def compress(codec: int, payload: bytes, level: int | None = None) -> bytes:
    """Return the records of a batch, compressed with the codec. Raises KeyError for a codec that does not exist.

    ``level`` is that of compression.gzip.level, compression.lz4.level or compression.zstd.level; None: the default.
    """
    return _COMPRESS[codec](payload, level)


def decompress(codec: int, payload: Buffer, limit_bytes: int | None = None) -> bytes:
    """Return the records' bytes. Raises CorruptMessage if they cannot be decompressed.

    Raises DecompressedTooLarge, which is one, if they exceed the limit, MAX_RECORDS_BYTES. What is not compressed has
    no limit: its bytes are in memory already.
    """
    limit_bytes = MAX_RECORDS_BYTES if limit_bytes is None else limit_bytes
    try:
        return _DECOMPRESS[codec](payload, limit_bytes)
    except (KeyError, cramjam.DecompressionError) as error:
        raise _typed(error, codec, limit_bytes) from error


def decompress_into(room: memoryview, codec: int, payload: memoryview) -> int:
    """Decompress the records to the beginning of ``room``. Returns the number of their bytes.

    The errors of ``decompress``. The limit is the room, also of what is not compressed.
    """
    content: Buffer = payload
    if codec != NO_COMPRESSION:
        try:
            if codec in _DECOMPRESS_INTO:
                return _DECOMPRESS_INTO[codec](payload, room)
            content = _DECOMPRESS[codec](payload, len(room))
        except (KeyError, cramjam.DecompressionError) as error:
            raise _typed(error, codec, len(room)) from error
    if len(content) > len(room):
        raise DecompressedTooLarge(f"{len(content)} bytes of records, the limit is {len(room)}")
    room[: len(content)] = content
    return len(content)


def _typed(error: Exception, codec: int, limit_bytes: int) -> LogError:
    if isinstance(error, KeyError):
        return UnsupportedCompression(f"compression codec {codec} does not exist")
    if _NO_ROOM in str(error):
        return DecompressedTooLarge(f"more than {limit_bytes} bytes when decompressed")
    return CorruptMessage(f"records cannot be decompressed: {error}")


_Decompress = Callable[[Buffer, int], bytes]
"""From the payload and the limit in bytes."""
_DecompressInto = Callable[[Buffer, memoryview | mmap.mmap | bytearray], int]
"""From the payload and the room, to the number of bytes in it."""


class _Kept(threading.local):
    """New memory for each batch takes more time than the decompression does."""

    def __init__(self) -> None:
        self.room = bytearray(AT_ONCE_BYTES)


_kept = _Kept()


def _into_memory(into: _DecompressInto) -> _Decompress:
    def run(payload: Buffer, limit_bytes: int) -> bytes:
        if limit_bytes == AT_ONCE_BYTES:
            return bytes(memoryview(_kept.room)[: into(payload, _kept.room)])
        with mmap.mmap(-1, limit_bytes) as room:  # only pages that are written take memory
            return room[: into(payload, room)]

    return run


def _plain(payload: Buffer, _: int) -> bytes:
    return bytes(payload)


def _snappy(payload: Buffer, limit_bytes: int) -> bytes:
    """Raw snappy (librdkafka, Go), or the blocks of xerial's snappy-java: magic, two versions, (length, block)*."""
    if payload[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy_block(payload, limit_bytes)
    blocks: list[bytes] = []
    room = limit_bytes
    at = _XERIAL_HEADER_BYTES
    while at < len(payload):
        end = at + 4 + int.from_bytes(payload[at : at + 4], "big")
        if end > len(payload):
            raise CorruptMessage("a snappy block is longer than its batch")
        blocks.append(_snappy_block(payload[at + 4 : end], room))
        room -= len(blocks[-1])
        at = end
    return b"".join(blocks)


def _snappy_block(block: Buffer, room: int) -> bytes:
    size_bytes = cramjam.snappy.decompress_raw_len(block) if block else 0
    if not block or size_bytes > _SNAPPY_MAX_RATIO * len(block):
        raise CorruptMessage(f"a snappy block of {len(block)} bytes cannot have {size_bytes}")
    if size_bytes > room:
        raise DecompressedTooLarge(f"a snappy block of {size_bytes} bytes, {room} are left")
    return bytes(cramjam.snappy.decompress_raw(block))


def _to_xerial(payload: bytes, _: int | None) -> bytes:
    out = bytearray(_XERIAL_MAGIC + _XERIAL_VERSIONS)
    for start in range(0, len(payload), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(payload[start : start + _XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big") + block
    return bytes(out)


def _to_gzip(payload: bytes, level: int | None) -> bytes:
    return bytes(cramjam.gzip.compress(payload, None if level == _ZLIB_DEFAULT else level))


def _to_lz4(payload: bytes, level: int | None) -> bytes:
    """Return a frame of independent blocks: Java's client can only read these."""
    fast = level is None or level == _LZ4_FAST
    compressor = cramjam.lz4.Compressor(level=0 if fast else level, block_linked=False)
    compressor.compress(payload)
    return bytes(compressor.finish())


_DECOMPRESS_INTO: dict[int, _DecompressInto] = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}
_DECOMPRESS: dict[int, _Decompress] = {
    NO_COMPRESSION: _plain,
    SNAPPY: _snappy,
    **{codec: _into_memory(into) for codec, into in _DECOMPRESS_INTO.items()},
}
_COMPRESS: dict[int, Callable[[bytes, int | None], bytes]] = {
    NO_COMPRESSION: lambda payload, _: bytes(payload),
    GZIP: _to_gzip,
    SNAPPY: _to_xerial,
    LZ4: _to_lz4,
    ZSTD: lambda payload, level: bytes(cramjam.zstd.compress(payload, _ZSTD_DEFAULT if level is None else level)),
}

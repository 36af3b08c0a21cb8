"""Record batches for Produce: valid ones of every codec, and ones that should be refused, or should do no harm."""

from __future__ import annotations

import zlib

import cramjam

from muster.actors.log.format.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, BatchHeader, read_header, seal
from tests.log.support import client_batch

BOMB_BYTES = 64 << 20
"""Size to which the bombs decompress."""
_MAX = (1 << 31) - 1


def changed(batch: bytes, *, sealed: bool = True, payload: bytes | None = None, **fields: int) -> bytes:
    """Return the batch with other header fields and another payload; with ``sealed``, its length and CRC are right."""
    header = read_header(batch)
    content = batch[HEADER_BYTES:] if payload is None else payload
    out = bytearray(HEADER_BYTES) + content
    new: BatchHeader = header._replace(**{"length": len(out) - LENGTH_OVERHEAD, **fields})
    HEADER.pack_into(out, 0, *new)
    if sealed:
        seal(out)
    return bytes(out)


def bomb(codec: int, size_bytes: int = BOMB_BYTES) -> bytes:
    """Return a batch of some kilobytes that decompresses to that many bytes."""
    return changed(client_batch(1), attributes=codec, payload=_PACKED[codec](bytes(size_bytes)))


def _gzip(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(content) + packer.flush()


_PACKED = {
    1: _gzip,
    2: lambda content: bytes(cramjam.snappy.compress_raw(content)),
    3: lambda content: bytes(cramjam.lz4.compress(content)),
    4: lambda content: bytes(cramjam.zstd.compress(content)),
}
_PLAIN = client_batch(3)
VALID_BATCHES = (
    _PLAIN,
    *(client_batch(2, codec=codec) for codec in (1, 2, 3, 4)),
    client_batch(1, producer=(1000, 0, 0)),
    client_batch(1, producer=(1000, 0, 0), transactional=True),
)
HOSTILE_BATCHES = (
    b"",
    _PLAIN[:20],
    _PLAIN[:-1],
    _PLAIN + _PLAIN,
    _PLAIN + b"\0",
    _PLAIN[:16] + b"\3" + _PLAIN[17:],
    _PLAIN[:16] + b"\1" + _PLAIN[17:],
    _PLAIN[:16] + b"\x7f" + _PLAIN[17:],
    _PLAIN[:17] + b"\0\0\0\0" + _PLAIN[21:],
    changed(_PLAIN, base_offset=_MAX << 32),
    changed(_PLAIN, length=_MAX),
    changed(_PLAIN, length=-1),
    changed(_PLAIN, length=10),
    changed(_PLAIN, record_count=_MAX, last_offset_delta=_MAX - 1),
    changed(_PLAIN, record_count=0),
    changed(_PLAIN, record_count=-1, last_offset_delta=-2),
    changed(_PLAIN, record_count=2, last_offset_delta=1),
    changed(_PLAIN, last_offset_delta=-1),
    changed(_PLAIN, last_offset_delta=_MAX),
    changed(_PLAIN, base_timestamp_ms=1 << 62, max_timestamp_ms=-(1 << 62)),
    changed(_PLAIN, max_timestamp_ms=(1 << 63) - 1),
    changed(_PLAIN, attributes=5),
    changed(_PLAIN, attributes=0x20),
    changed(_PLAIN, attributes=0x40),
    changed(_PLAIN, attributes=0x7FFF),
    changed(_PLAIN, producer_id=1, producer_epoch=-1, base_sequence=-1),
    changed(_PLAIN, producer_id=-5, producer_epoch=0, base_sequence=0),
    changed(_PLAIN, producer_id=(1 << 63) - 1, producer_epoch=32_767, base_sequence=_MAX),
    changed(_PLAIN, payload=b"\xff" * 100),
    changed(_PLAIN, payload=b"\x80" * 100),
    changed(_PLAIN, payload=b""),
    *(changed(_PLAIN, attributes=codec) for codec in (1, 2, 3, 4)),
    *(changed(_PLAIN, attributes=codec, payload=b"") for codec in (1, 2, 3, 4)),
    changed(_PLAIN, attributes=2, payload=b"\x82SNAPPY\x00" + bytes((0, 0, 0, 1)) * 2 + b"\x7f\xff\xff\xff"),
    changed(_PLAIN, attributes=2, payload=b"\xff\xff\xff\xff\x0f" + b"a" * 20),
    *(bomb(codec, 1 << 20) for codec in (1, 3, 4)),
)

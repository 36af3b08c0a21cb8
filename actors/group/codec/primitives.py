"""Kafka's primitive types, for the few messages that are not requests: log records and consumer protocol data."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Self
from uuid import UUID

from muster.actors.group.errors import CorruptRecord

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class Writer:
    """Appends values. ``flexible`` switches to the compact encoding of KIP-482. UTF-8 and range errors raise as in
    Python.
    """

    def __init__(self) -> None:
        self._out = bytearray()
        self.flexible = False

    def int8(self, value: int) -> Self:
        self._out += _INT8.pack(value)
        return self

    def int16(self, value: int) -> Self:
        self._out += _INT16.pack(value)
        return self

    def int32(self, value: int) -> Self:
        self._out += _INT32.pack(value)
        return self

    def int64(self, value: int) -> Self:
        self._out += _INT64.pack(value)
        return self

    def uuid(self, value: UUID) -> Self:
        self._out += value.bytes
        return self

    def string(self, value: str) -> Self:
        data = value.encode()
        if self.flexible:
            self._varint(len(data) + 1)
        else:
            self._out += _INT16.pack(len(data))
        self._out += data
        return self

    def nullable_string(self, value: str | None) -> Self:
        if value is not None:
            return self.string(value)
        return self._varint(0) if self.flexible else self.int16(-1)

    def blob(self, value: bytes) -> Self:
        if self.flexible:
            self._varint(len(value) + 1)
        else:
            self._out += _INT32.pack(len(value))
        self._out += value
        return self

    def array_length(self, length: int) -> Self:
        """Write the length of an array, which precedes its elements."""
        return self._varint(length + 1) if self.flexible else self.int32(length)

    def strings(self, values: Iterable[str]) -> Self:
        listed = [*values]
        self.array_length(len(listed))
        for value in listed:
            self.string(value)
        return self

    def int32s(self, values: Iterable[int]) -> Self:
        listed = [*values]
        self.array_length(len(listed))
        for value in listed:
            self.int32(value)
        return self

    def tagged_fields(self, fields: Mapping[int, bytes] | None = None) -> Self:
        """Write the end of a flexible structure: the content of each field, by tag."""
        self._varint(len(fields or {}))
        for tag, data in sorted((fields or {}).items()):
            self._varint(tag)._varint(len(data))
            self._out += data
        return self

    def bytes(self) -> bytes:
        return bytes(self._out)

    def _varint(self, value: int) -> Self:
        while value > 0x7F:
            self._out.append(value & 0x7F | 0x80)
            value >>= 7
        self._out.append(value)
        return self


class Reader:
    """Reads values from the front. ``flexible`` switches to the compact encoding of KIP-482.

    Raises CorruptRecord for data that is truncated or malformed.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.flexible = False

    @property
    def left(self) -> int:
        """The number of remaining bytes."""
        return len(self._data) - self._at

    def int8(self) -> int:
        return int(_INT8.unpack(self._take(1))[0])

    def int16(self) -> int:
        return int(_INT16.unpack(self._take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self._take(4))[0])

    def int64(self) -> int:
        return int(_INT64.unpack(self._take(8))[0])

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise CorruptRecord(f"null string before byte {self._at}")
        return value

    def nullable_string(self) -> str | None:
        length = self._varint() - 1 if self.flexible else self.int16()
        if length == -1:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise CorruptRecord(f"string before byte {self._at} is not UTF-8") from error

    def blob(self) -> bytes:
        return self._take(self._varint() - 1 if self.flexible else self.int32())

    def nullable_blob(self) -> bytes | None:
        length = self._varint() - 1 if self.flexible else self.int32()
        return None if length == -1 else self._take(length)

    def array_length(self) -> int:
        """Read the number of elements.

        Each takes at least one byte, so a length beyond the remaining bytes is corrupt.
        """
        return self._length(self._varint() - 1 if self.flexible else self.int32())

    def nullable_array_length(self) -> int:
        """Like :meth:`array_length`; 0 for a null array."""
        length = self._varint() - 1 if self.flexible else self.int32()
        return 0 if length == -1 else self._length(length)

    def _length(self, length: int) -> int:
        if not 0 <= length <= self.left:
            raise CorruptRecord(f"array of {length} elements before byte {self._at}")
        return length

    def strings(self) -> tuple[str, ...]:
        return tuple(self.string() for _ in range(self.array_length()))

    def int32s(self) -> tuple[int, ...]:
        return tuple(self.int32() for _ in range(self.array_length()))

    def tagged_fields(self) -> dict[int, bytes]:
        """Read the tagged fields at the end of a flexible structure by tag; none in the classic encoding."""
        count = self._varint() if self.flexible else 0
        return {self._varint(): self._take(self._varint()) for _ in range(count)}

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise CorruptRecord(f"varint before byte {self._at} is too long")

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise CorruptRecord(f"{count} bytes wanted at byte {self._at} of {len(self._data)}")
        data = self._data[self._at : end]
        self._at = end
        return data

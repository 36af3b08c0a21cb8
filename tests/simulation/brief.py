"""Messages, records and events as short text, for a readable trace."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_protocol import assigned_partitions
from muster.actors.group.codec.records import UnknownKey, decode_key, decode_value
from muster.actors.group.types import Record

_SILENT: tuple[Any, ...] = (None, "", (), -1, b"")
_SILENT_SINGLES = (False, ErrorCode.none)
_LONGEST = 40


def brief(value: Any) -> str:
    """Return the value without fields that have their usual default; bytes as the partitions that they assign."""
    match value:
        case Record():
            key = decode_key(value.key)
            if isinstance(key, UnknownKey) or value.value is None:
                return f"{brief(key)} deleted"
            return f"{brief(key)} = {brief(decode_value(key, value.value))}"
        case Enum():
            return value.name if isinstance(value.value, int) else str(value.value)
        case bytes():
            return _bytes(value)
        case str() if len(value) > _LONGEST:
            return f"{value[:_LONGEST]}..."
        case tuple() if hasattr(value, "_fields"):
            return f"{type(value).__name__}({' '.join(brief(each) for each in value)})"
        case tuple() | list():
            return f"[{', '.join(brief(each) for each in value)}]"
        case frozenset() | set():
            return f"[{', '.join(sorted(map(brief, value)))}]"
        case _ if dataclasses.is_dataclass(value):
            return f"{type(value).__name__}({' '.join(_fields(value))})"
    return str(value)


def _fields(value: Any) -> list[str]:
    said = ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value))
    return [
        f"{name}={brief(given)}"
        for name, given in said
        if given not in _SILENT and not any(given is each for each in _SILENT_SINGLES)
    ]


def _bytes(value: bytes) -> str:
    partitions = assigned_partitions(value)
    if partitions is None:
        return value[:_LONGEST].hex() or "nothing"
    return " ".join(f"{topic}-{index}" for topic, index in sorted(partitions)) or "nothing"

"""The values of records: their sender and number, in text that reveals a wrong byte."""

from __future__ import annotations

_LONGEST = 240


def value_of(producer: str, number: int) -> bytes:
    """``<producer>:<number>|xxx``, with a length that depends on the number."""
    return f"{producer}:{number}|{'x' * (number * 37 % _LONGEST)}".encode()


def name_of(value: bytes | None) -> str:
    """``<producer>:<number>``; for a value that no producer sent, the whole value."""
    text = (value or b"").decode(errors="replace")
    name, bar, _ = text.partition("|")
    producer, colon, number = name.rpartition(":")
    if bar and colon and number.isdigit() and value == value_of(producer, int(number)):
        return name
    return text

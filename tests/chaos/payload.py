"""The values of records: who sent them and the how many-th they are, in text that shows when a byte is wrong."""

from __future__ import annotations

_LONGEST = 240


def value_of(producer: str, number: int) -> bytes:
    """``<producer>:<number>|xxx``, of a length that depends on the number."""
    return f"{producer}:{number}|{'x' * (number * 37 % _LONGEST)}".encode()


def name_of(value: bytes | None) -> str:
    """``<producer>:<number>``; the whole value, which nobody has sent, if it is no value of ours."""
    text = (value or b"").decode(errors="replace")
    name, bar, _ = text.partition("|")
    producer, colon, number = name.rpartition(":")
    if bar and colon and number.isdigit() and value == value_of(producer, int(number)):
        return name
    return text

"""Words of messages for users."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Format a count: ``1 offset``, ``2 offsets``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

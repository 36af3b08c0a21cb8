"""What an exception says, in one line."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """The first line of its message, or its type where it has none."""
    return _lines(error)[0]


def last_line(error: BaseException) -> str:
    """The last line: where Ray puts the cause, after the traceback of the other process."""
    return _lines(error)[-1]


def _lines(error: BaseException) -> list[str]:
    return (str(error).strip() or type(error).__name__).splitlines()

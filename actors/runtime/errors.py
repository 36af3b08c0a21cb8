"""The message of an exception in one line."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """Return the first line of the message, or the type if there is no message."""
    return _lines(error)[0]


def last_line(error: BaseException) -> str:
    """Return the last line, where Ray puts the cause, after the traceback of the other process."""
    return _lines(error)[-1]


def _lines(error: BaseException) -> list[str]:
    return (str(error).strip() or type(error).__name__).splitlines()

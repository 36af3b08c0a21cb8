"""All output of commands to a terminal or a pipe goes through this module (tests/runtime/test_terminal.py checks that
for every module).

Clients choose much of the output: names of groups, topics, members, hosts, metadata. Characters that are not printable
(escape sequences, line breaks in names, characters that reverse the text direction) or that the stream's encoding lacks
are written as Python escapes: ``\\x1b``, ``\\n``, ``\\u4e2d``. So no client can control the terminal, no name looks
like a second line, and every encoding suffices. JSON needs none of this: it is ASCII, and exact.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, TextIO


def printable(text: str, encoding: str = "utf-8") -> str:
    """Return the text on one line, with escapes for characters that are not printable or cannot be encoded."""
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else _escape(letter) for letter in text)
    return text if text.isascii() else text.encode(encoding, "backslashreplace").decode(encoding)


def in_shape(text: str, encoding: str = "utf-8") -> str:
    """Return text of several lines with escapes like :func:`printable`; line breaks and tabs stay."""
    return "\n".join("\t".join(printable(part, encoding) for part in row.split("\t")) for row in text.split("\n"))


def line(text: str = "", *, err: bool = False) -> None:
    """Write one line to stdout, or to stderr, at once."""
    stream = sys.stderr if err else sys.stdout
    stream.write(printable(text, _encoding(stream)) + "\n")
    stream.flush()


def text(lines: str, *, err: bool = False) -> None:
    """Write lines of Muster's own, such as a help text, to stdout or to stderr."""
    for each in lines.split("\n"):
        line(each, err=err)


def json_text(content: str) -> None:
    """Write ASCII JSON (``ensure_ascii``) to stdout unchanged. Raises ValueError if it is not ASCII."""
    content = content.replace("\x7f", "\\u007f")  # the one control character that JSON does not escape
    if not content.isascii() or not content.replace("\n", "").isprintable():
        raise ValueError(f"not ASCII: {content[:100]!a}")
    sys.stdout.write(f"{content}\n")
    sys.stdout.flush()


def for_shell(text: str) -> None:
    """Write one line for ``eval`` to stdout, with the exact bytes of paths in it, whatever the encoding."""
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), os.fsencode(f"{text}\n"))


def guard() -> None:
    """Apply the same to all other output to stdout and stderr of this process: tracebacks, logs, libraries."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - None: it was closed
        if not isinstance(stream, _Guarded):
            setattr(sys, name, _Guarded(stream))


class LogFormatter(logging.Formatter):
    """Formats each record as one line, with the traceback below."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return in_shape(super().formatException(ei))


class _Guarded:
    """A text stream that passes on printable characters, line breaks and tabs, and escapes everything else."""

    def __init__(self, unguarded: TextIO) -> None:
        self.unguarded = unguarded

    def write(self, text: str) -> int:
        self.unguarded.write(in_shape(text, _encoding(self.unguarded)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for each in lines:
            self.write(each)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def _encoding(stream: IO[str]) -> str:
    return getattr(stream, "encoding", None) or "utf-8"

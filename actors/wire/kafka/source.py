"""Source text of functions that read or write one class of entities, made as dataclasses make ``__init__``."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType
from typing import Any


class Source:
    """Lines of a function, and the objects that it uses by name.

    Equal lines are compiled once: many versions of an API differ in nothing but the names of their fields.
    """

    def __init__(self, head: str, known: dict[str, Any]) -> None:
        self._lines = [f"def {head}:"]
        self._known = dict(known)
        self._indent = 1
        self._count = 0
        self._names: dict[int, str] = {}

    def add(self, *lines: str) -> None:
        self._lines += [" " * self._indent + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Put what is added into a block of that statement."""
        self.add(head)
        before = len(self._lines)
        self._indent += 1
        yield
        if len(self._lines) == before:
            self.add("pass")
        self._indent -= 1

    def fresh(self) -> str:
        """Return the name of a new variable."""
        self._count += 1
        return f"v{self._count}"

    def name_of(self, known: Any) -> str:
        """Return the name of an object; the names depend on the order alone."""
        if id(known) not in self._names:
            self._names[id(known)] = name = f"k{len(self._names)}"
            self._known[name] = known
        return self._names[id(known)]

    def made(self) -> Callable[..., Any]:
        """Return the function."""
        namespace = self._known
        exec(_compiled("\n".join(self._lines)), namespace)  # noqa: S102 - of kio's schemas
        made: Callable[..., Any] = namespace[self._lines[0].split()[1].partition("(")[0]]
        return made


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<wire>", "exec")


@cache
def packed(formats: str) -> struct.Struct:
    """Return the struct of these values in network order."""
    return struct.Struct(">" + formats)

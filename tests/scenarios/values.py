"""Values of the scenario language: on the right of ``=`` in a request, and of ``->`` in a response.

A value is ``null``, ``true``, ``false``, a whole number, a word, a ``"string"``, ``[a list, of values]``,
``{a: map, of: values}``, ``@A`` (the member id that was made for client or instance ``A``; ``@A.2`` is the second
one) or a call: ``subscription(t u)``, ``assignment(t/0 t/1)``, ``bytes(00ff)``, ``id(t)`` (the id of topic ``t``),
``units(4097)`` (a text of that many UTF-16 units).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<ref>@[\w-]+(?:\.\d+)?)
    | (?P<number>-?\d+(?![\w./]))
    | (?P<call>[a-z]+\([^()]*\))
    | (?P<word>[^\s\[\]{}:,="()&]+)
    | (?P<mark>[\[\]{}:,=&])
    )""",
    re.VERBOSE,
)
_WORDS = {"null": None, "true": True, "false": False}


class ScenarioError(ValueError):
    """The scenario cannot be read or played: an error in the scenario."""


@dataclass(frozen=True, slots=True)
class Ref:
    """The ``number``-th member id, from 1, that a server generated for a client or instance of that name."""

    name: str
    number: int = 1

    def __str__(self) -> str:
        return f"@{self.name}" if self.number == 1 else f"@{self.name}.{self.number}"


@dataclass(frozen=True, slots=True)
class Called:
    """``name(args)``: bytes or an id, in readable form."""

    name: str
    args: tuple[str, ...]


def read_fields(text: str) -> tuple[dict[str, Any], bool]:
    """``a=1 b=[2]`` as a dict, and whether the text ends with ``&``."""
    tokens = _Tokens(text)
    fields: dict[str, Any] = {}
    background = False
    while not tokens.at_end:
        if tokens.take("&"):
            background = True
            tokens.expect_end()
            break
        name = tokens.word()
        tokens.expect("=")
        if name in fields:
            raise ScenarioError(f"{name} is given twice in: {text}")
        fields[name] = tokens.value()
    return fields, background


class _Tokens:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokenize(text))
        self._next = 0

    @property
    def at_end(self) -> bool:
        return self._next == len(self._tokens)

    def expect_end(self) -> None:
        if not self.at_end:
            raise ScenarioError(f"nothing may follow & in: {self._text}")

    def take(self, mark: str) -> bool:
        if not self.at_end and self._tokens[self._next] == ("mark", mark):
            self._next += 1
            return True
        return False

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise ScenarioError(f"{mark} is missing in: {self._text}")

    def _pop(self) -> tuple[str, str]:
        if self.at_end:
            raise ScenarioError(f"a value is missing at the end of: {self._text}")
        self._next += 1
        return self._tokens[self._next - 1]

    def word(self) -> str:
        kind, text = self._pop()
        if kind != "word":
            raise ScenarioError(f"{text} is no field name in: {self._text}")
        return text

    def value(self) -> Any:
        kind, text = self._pop()
        if kind == "string":
            return json.loads(text)
        if kind == "number":
            return int(text)
        if kind == "word":
            return _WORDS.get(text, text)
        if kind == "ref":
            return _ref(text)
        if kind == "call":
            name, _, args = text[:-1].partition("(")
            return Called(name, tuple(args.replace(",", " ").split()))
        if text == "[":
            return self._list()
        if text == "{":
            return self._map()
        raise ScenarioError(f"{text} begins no value in: {self._text}")

    def _list(self) -> list[Any]:
        items: list[Any] = []
        while not self.take("]"):
            items.append(self.value())
            if not self.take(","):
                self.expect("]")
                break
        return items

    def _map(self) -> dict[Any, Any]:
        items: dict[Any, Any] = {}
        while not self.take("}"):
            key = self.value()
            self.expect(":")
            items[key] = self.value()
            if not self.take(","):
                self.expect("}")
                break
        return items


def _ref(text: str) -> Ref:
    name, _, number = text[1:].partition(".")
    return Ref(name, int(number or 1))


def _tokenize(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ScenarioError(f"cannot read: {text[position:]}")
        yield match.lastgroup, match[match.lastgroup]
        position = match.end()

"""Lines of text for programs that count words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tests.conformance.programs.records import read

LINES = [f"{('group', 'topic', 'offset')[number % 3]} of {number % 7}" for number in range(400)]
FIRST = 200
"""Lines before a kill."""


def counted(lines: Iterable[str]) -> dict[str, int]:
    """Return the number of each word."""
    return dict(Counter(word for line in lines for word in line.split()))


def history(bootstrap: str, topic: str, number: Callable[[bytes], int]) -> dict[str, list[int]]:
    """Every count of each word, in the order of the output; ``number``: that of a value. Committed ones only."""
    found: dict[str, list[int]] = {}
    for record in read(bootstrap, topic, committed=True):
        assert record.key is not None
        assert record.value is not None
        found.setdefault(record.key.decode(), []).append(number(record.value))
    return found


def unfinished(bootstrap: str, topic: str) -> bool:
    """Whether the topic has records after those that are committed."""
    last = [
        {record.partition: record.offset for record in read(bootstrap, topic, committed=only)} for only in (True, False)
    ]
    return last[0] != last[1]


def latest(counts: dict[str, list[int]]) -> dict[str, int]:
    """Return the last count of each word."""
    return {word: numbers[-1] for word, numbers in counts.items()}


def each_once(counts: dict[str, list[int]]) -> bool:
    """Whether every word was counted up by one at a time."""
    return all(numbers == list(range(1, len(numbers) + 1)) for numbers in counts.values())


def described(counts: dict[str, list[int]]) -> str:
    """For the table."""
    words = sum(map(len, counts.values()))
    once = "each counted once" if each_once(counts) else "some counted twice"
    return f"{len(LINES)} lines, {words} words, {len(counts)} different, {once}"

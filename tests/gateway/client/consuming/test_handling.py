"""Attempts, and what becomes of records that fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from muster.actors.log.format.arrow.schema import SCHEMA
from muster.gateway.client.consuming.dead_letters import headers_of
from muster.gateway.client.consuming.handling import Abandoned, Counts, Failure, Handling
from muster.gateway.client.errors import HandlerFailed

ROW = {"topic": "t", "partition": 1, "timestamp": 1_700_000_000_000, "timestamp_type": 1, "key": None, "headers": []}


def table(*values: bytes) -> pa.Table:
    return pa.Table.from_pylist([{**ROW, "offset": 10 + n, "value": value} for n, value in enumerate(values)], SCHEMA)


class Calls:
    """A handler that fails for some values, so often; it notes the values of each call."""

    def __init__(self, **failures: int) -> None:
        self.failures = failures
        self.calls: list[str] = []

    def __call__(self, batch: pa.Table) -> None:
        values = b"".join(batch["value"].to_pylist()).decode()
        self.calls.append(values)
        for value in values:
            if self.failures.get(value, 0) > 0:
                self.failures[value] -= 1
                raise ValueError(f"{value}\nfails")


class Letters(list[Failure]):
    def write(self, failures: list[Failure]) -> None:
        self.extend(failures)


def handle(
    handler: Callable[[pa.Table], None], *values: bytes, attempts: int = 2, letters: Letters | None = None
) -> Counts:
    counts = Counts()
    Handling(attempts, letters, counts, threading.Event()).handle(handler, table(*values))
    return counts


def test_a_batch_that_fails_is_repeated() -> None:
    calls = Calls(b=1)
    counts = handle(calls, b"a", b"b", b"c")
    assert calls.calls == ["abc", "abc"]
    assert (counts.records, counts.batches, counts.failed_attempts, counts.dead_letters) == (3, 1, 1, 0)
    assert counts.last_error == "ValueError: b fails"


def test_after_the_last_attempt_each_record_has_one_alone() -> None:
    calls, letters = Calls(b=2, c=9), Letters()
    counts = handle(calls, b"a", b"b", b"c", b"d", letters=letters)
    assert calls.calls == ["abcd", "abcd", "a", "b", "c", "d"]
    (letter,) = letters
    assert (letter.place, letter.row["value"], letter.error, letter.attempts) == (
        "t-1@12",
        b"c",
        "ValueError: c fails",
        3,
    )
    assert (counts.records, counts.failed_attempts, counts.dead_letters) == (4, 3, 1)


def test_a_single_record_is_not_repeated_once_more() -> None:
    calls, letters = Calls(a=9), Letters()
    handle(calls, b"a", letters=letters)
    assert calls.calls == ["a", "a"]
    assert [each.attempts for each in letters] == [2]


def test_without_dead_letters_the_first_that_fails_alone_ends_it() -> None:
    calls = Calls(b=9, c=9)
    with pytest.raises(HandlerFailed, match=r"^t-1@11 cannot be handled: ValueError: b fails$"):
        handle(calls, b"a", b"b", b"c")
    assert calls.calls == ["abc", "abc", "a", "b"]


class Odd(BaseException):
    def __str__(self) -> str:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("error", "text"),
    [(SystemExit("1"), "SystemExit: 1"), (Odd(), "Odd: (its message cannot be shown)"), (OSError(), "OSError")],
)
def test_any_error_is_a_failed_attempt(error: BaseException, text: str) -> None:
    letters = Letters()

    def handler(batch: pa.Table) -> None:
        raise error

    handle(handler, b"a", letters=letters)
    assert [each.error for each in letters] == [text]


def test_a_handler_that_turns_out_to_be_async_fails() -> None:
    async def handler(batch: pa.Table) -> None: ...

    letters = Letters()
    later: Any = lambda batch: handler(batch)  # noqa: E731
    handle(later, b"a", letters=letters)
    assert "async" in letters[0].error


@pytest.mark.parametrize("when", ["during the attempts", "record by record"])
def test_a_member_that_stops_makes_no_further_attempt(when: str) -> None:
    stopping, letters, calls = threading.Event(), Letters(), Calls(b=9)
    count = {"during the attempts": 1, "record by record": 4}[when]

    def handler(batch: pa.Table) -> None:
        if len(calls.calls) + 1 == count:
            stopping.set()
        calls(batch)

    counts = Counts()
    with pytest.raises(Abandoned):
        Handling(2, letters, counts, stopping).handle(handler, table(b"a", b"b", b"c"))
    assert len(calls.calls) == count
    assert not letters
    assert counts.batches == 0


def test_headers_of_a_dead_letter_are_text() -> None:
    failure = Failure({**ROW, "offset": 7, "value": b"v"}, "ValueError: ü", 6)
    assert headers_of(failure, "g") == [
        ("dead_letter.error", "ValueError: ü".encode()),
        ("dead_letter.topic", b"t"),
        ("dead_letter.partition", b"1"),
        ("dead_letter.offset", b"7"),
        ("dead_letter.timestamp", b"1700000000000"),
        ("dead_letter.group", b"g"),
        ("dead_letter.attempts", b"6"),
    ]

"""Log lines that clients can cause: their number, their content, and the memory that they take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from muster.actors.wire.limited_log import LimitedLog

LOGGER = logging.getLogger("tests.limited")
LONG_S = 3600.0


class Lines(logging.Handler):
    """The written lines, to be awaited."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._more = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self._more.set()

    async def until(self, count: int) -> list[str]:
        async with asyncio.timeout(20):
            while len(self.texts) < count:
                self._more.clear()
                await self._more.wait()
        return self.texts


def run(window_s: float, check: Callable[[LimitedLog, Lines], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        lines = Lines()
        LOGGER.addHandler(lines)
        try:
            limited = LimitedLog(LOGGER, window_s=window_s)
            await check(limited, lines)
        finally:
            LOGGER.removeHandler(lines)

    asyncio.run(main())


def test_the_first_of_each_kind_and_host_is_written_at_once() -> None:
    async def check(limited: LimitedLog, lines: Lines) -> None:
        for number in range(3):
            for kind, host in (("tls", "a"), ("tls", "b"), ("http", "a")):
                limited.warning(kind, host, "%s of %s, %d", kind, host, number)
        assert lines.texts == ["tls of a, 0", "tls of b, 0", "http of a, 0"]
        limited.flush()

    run(LONG_S, check)


def test_later_lines_are_counted_and_the_last_is_logged() -> None:
    async def check(limited: LimitedLog, lines: Lines) -> None:
        for number in range(1235):
            limited.warning("tls", "a", "line %d of 100 %%", number)
        limited.warning("http", "a", "alone")
        limited.flush()
        assert lines.texts[2:] == ["and 1,234 more from a in the last 3600 s like this: line 1234 of 100 %"]
        limited.warning("tls", "a", "a first one again")
        assert lines.texts[-1] == "a first one again"
        limited.flush()

    run(LONG_S, check)


def test_a_host_that_continues_is_counted_and_one_that_was_quiet_is_new() -> None:
    async def check(limited: LimitedLog, lines: Lines) -> None:
        for host in "aab":
            limited.warning("tls", host, "%s", host)
        assert len(await lines.until(3)) == 3
        assert lines.texts[2].endswith("like this: a")
        for host in "ab":
            limited.warning("tls", host, "%s again", host)
        assert lines.texts[3:] == ["b again"]
        assert (await lines.until(5))[4].startswith("and 1 more from a in the last 0.05 s like this: a again")
        limited._windows["tls"].timer.cancel()
        limited._end("tls")
        assert not limited._windows, "no host continued, so nothing is kept"

    run(0.05, check)


def test_any_number_of_hosts_costs_few_lines_and_little_memory() -> None:
    async def check(limited: LimitedLog, lines: Lines) -> None:
        for number in range(10_000):
            for _ in range(2):
                limited.warning("tls", f"host-{number}", "from %d", number)
        assert len(lines.texts) == 20
        assert len(limited._windows["tls"].by_whom) == 21
        limited.flush()
        assert len(lines.texts) == 41
        assert lines.texts[-1] == "and 19,960 more from others in the last 3600 s like this: from 9999"
        assert not limited._windows

    run(LONG_S, check)


def test_a_traceback_is_written_once(caplog: pytest.LogCaptureFixture) -> None:
    async def check(limited: LimitedLog, lines: Lines) -> None:
        for _ in range(3):
            limited.exception(RuntimeError("ours"), "failed", "a", "it failed")
        limited.flush()

    run(LONG_S, check)
    assert [record.exc_info is not None for record in caplog.records] == [True, False]


def test_a_million_lines_of_many_hosts_are_a_few_hundred_and_none_is_uncounted() -> None:
    """Five windows of a storm, each with other hosts; the ends of the windows are called, not awaited."""

    async def check(limited: LimitedLog, lines: Lines) -> None:
        for window in range(5):
            for number in range(200_000):
                limited.warning("unreadable", f"host-{window}-{number % 5_000}", "a bad frame")
            assert sum(len(each.by_whom) for each in limited._windows.values()) <= 21 + 21
            limited._end("unreadable")
        limited.flush()
        written = [line for line in lines.texts if line == "a bad frame"]
        counts = [int(line.split()[1].replace(",", "")) for line in lines.texts if line != "a bad frame"]
        assert len(lines.texts) < 300
        assert len(written) + sum(counts) == 1_000_000

    run(LONG_S, check)

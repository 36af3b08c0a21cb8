"""The row writer beside an actor's work: many rows at once, failures, and the end."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from muster.actors.runtime import event_writer
from muster.actors.runtime.event_writer import EventWriter
from muster.actors.tables import events, parquet
from tests.table_rows import table_rows
from tests.tables.events import event

HOUR_MS = 3_600_000


def open_writer(
    storage: Path, *, flush_ms: int = HOUR_MS, collect: Callable[[], Awaitable[None]] | None = None
) -> EventWriter:
    return EventWriter(storage, "lifecycle", "controller", flush_ms=flush_ms, now_ms=lambda: 1, collect=collect)


def epochs(storage: Path) -> list[int]:
    return [row["epoch"] for row in table_rows(storage, "lifecycle")]


async def until_written(storage: Path, rows: int) -> None:
    while len(epochs(storage)) < rows:  # noqa: ASYNC110 - another thread writes them
        await asyncio.sleep(0.005)


def test_many_rows_are_written_before_they_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reconciler may recreate a hundred thousand nodes between two flushes."""
    monkeypatch.setattr(event_writer, "_FLUSH_ROWS", 10)
    monkeypatch.setattr(events, "MAX_ROWS_HELD", 15)

    async def scenario() -> None:
        writer = open_writer(tmp_path)
        writer.start()
        for first in range(0, 100, 10):
            for epoch in range(first, first + 10):
                await asyncio.to_thread(writer.add, event(epoch))
            await until_written(tmp_path, first + 10)
        await writer.close()

    asyncio.run(scenario())
    assert epochs(tmp_path) == [*range(100)]


def test_what_is_collected_fails_and_the_rest_is_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def collect() -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        writer = open_writer(tmp_path, flush_ms=1, collect=collect)
        writer.start()
        for epoch in range(3):
            writer.add(event(epoch))
            await until_written(tmp_path, epoch + 1)
        await writer.close()

    asyncio.run(scenario())
    said = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 1, "once"
    assert said[0].exc_info is not None


def test_a_full_disk_is_said_once_and_again_when_it_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = 0

    def refuse(*_: object) -> None:
        nonlocal refusals
        refusals += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def until_refused() -> None:
        before = refusals
        while refusals < before + 3:  # noqa: ASYNC110 - in another thread
            await asyncio.sleep(0.001)

    async def scenario() -> None:
        writer = open_writer(tmp_path, flush_ms=1)
        writer.start()
        for epoch in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(parquet, "write_whole", refuse)
                writer.add(event(epoch))
                await until_refused()
            await until_written(tmp_path, epoch + 1)
        await writer.close()
        writer.add(event(9))
        await writer.close()

    asyncio.run(scenario())
    assert epochs(tmp_path) == [0, 1]
    assert len([each for each in caplog.messages if "stay in their spool" in each]) == 2
    assert not [path for path in (tmp_path / "metrics" / "spool").rglob("*") if path.is_file()]

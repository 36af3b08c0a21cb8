"""While acknowledgements are held, nothing is acknowledged or visible; afterwards everything is."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from muster.actors.log.upkeep.hold import HOLD, AcknowledgementHold
from tests.log.support import client_batch, everything_has_run, open_log, run, segment_files
from tests.log.test_commit import GatedDisk

pytestmark = pytest.mark.usefixtures("either_storage")


def test_an_append_waits_for_the_end_of_the_hold(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_log(tmp_path, 0)
        token = await HOLD.begin()
        append = asyncio.ensure_future(log.append(client_batch()))
        await everything_has_run()
        written = sum(path.stat().st_size for path in segment_files(tmp_path))
        assert (append.done(), log.high_watermark, written) == (False, 0, 0)
        assert HOLD.end(token) is not None
        assert (await append).base_offset == 0
        assert log.high_watermark == 1
        await log.close()

    run(scenario())


@pytest.mark.in_directory
def test_a_hold_begins_once_the_commit_in_progress_is_acknowledged(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = GatedDisk()
        log = open_log(tmp_path, 0, disk=disk)
        disk.entered.clear()
        disk.gate.clear()
        append = asyncio.ensure_future(log.append(client_batch()))
        await disk.reached()
        held = asyncio.ensure_future(HOLD.begin())
        await everything_has_run()
        assert not held.done()
        disk.gate.set()
        token = await held
        assert log.high_watermark == 1
        await append
        assert HOLD.end(token) is not None
        await log.close()

    run(scenario())


def test_the_end_says_how_long_appends_waited(tmp_path: Path) -> None:
    """Not how long the caller took, whose requests may be under way for longer."""

    async def scenario() -> None:
        log = open_log(tmp_path, 0)
        requested_s = time.monotonic()
        token = await HOLD.begin()
        began_s = time.monotonic()
        append = asyncio.ensure_future(log.append(client_batch()))
        await everything_has_run()
        ended_s = time.monotonic()
        held_ms = HOLD.end(token)
        assert held_ms is not None
        assert ended_s - began_s <= held_ms / 1000 <= time.monotonic() - requested_s
        await append
        await log.close()

    run(scenario())


def test_a_hold_that_ended_by_itself_is_no_hold() -> None:
    async def scenario() -> None:
        hold = AcknowledgementHold()
        token = await hold.begin(for_s=0.01)
        await hold.over()
        assert not hold.is_on
        assert hold.end(token) is None

    run(scenario())


def test_a_later_hold_replaces_an_earlier_one() -> None:
    async def scenario() -> None:
        hold = AcknowledgementHold()
        first, second = await hold.begin(), await hold.begin()
        assert hold.end(first) is None
        assert hold.is_on
        assert hold.end(second) is not None

    run(scenario())

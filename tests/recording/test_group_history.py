"""The three tables of a real coordinator with a real log, also when it is killed."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from muster.actors.config import MusterConfig
from muster.actors.offsets.history.group_history import GroupHistory
from muster.actors.runtime.process import now_ms
from muster.actors.wire.kafka.codec import ErrorCode
from tests.offsets.shell import GROUP, Shell, commit, exchange, run
from tests.offsets.test_offsets_shell import BrokenDisk
from tests.recording.coordinator import Recorded
from tests.recording.history import held_at
from tests.table_rows import table_rows

SELDOM = {"metrics.commits.flush.ms": "3600000", "metrics.events.flush.ms": "3600000"}
OFTEN = {"metrics.commits.flush.ms": "100", "metrics.events.flush.ms": "100"}
LOST = "may be lost"


def of_group(storage: Path, table: str, group: str = GROUP) -> list[dict[str, Any]]:
    return [row for row in table_rows(storage, table) if row["group"] == group]


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return tmp_path


def killed_at_work(storage: Path, commits: int) -> list[tuple[int, int]]:
    """Run a process that commits at least that often, and kill it; return the acknowledged offsets, with times."""
    command = [sys.executable, "-m", "tests.recording.coordinator", str(storage)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(commits)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    acknowledged = [tuple(map(int, line.split())) for line in lines if line.endswith(b"\n")]
    assert len(acknowledged) >= commits
    return acknowledged  # type: ignore[return-value]


@pytest.mark.parametrize("attempt", range(2))
def test_sigkill_takes_the_open_window_of_commits_and_no_more(
    storage: Path, caplog: pytest.LogCaptureFixture, attempt: int
) -> None:
    caplog.set_level(logging.WARNING)
    acknowledged = killed_at_work(storage, random.randrange(500, 1500))
    last_offset, _ = acknowledged[-1]

    async def successor() -> None:
        shell = Recorded(storage, 2, SELDOM)
        channel = await shell.serve(storage / "b.sock")
        assert await commit(channel, last_offset + 10) == {ErrorCode.none}
        await shell.stop()

    run(successor)
    *before, after = of_group(storage, "commits")
    assert [row["previous"] for row in before] == [None, *(row["offset"] for row in before[:-1])], (
        "no window in between"
    )
    assert all(row["commits"] == row["offset"] - (row["previous"] or 0) for row in before)
    assert (after["epoch"], after["offset"], after["commits"]) == (2, last_offset + 10, 1)
    assert after["previous"] >= last_offset
    written_until, written_ms = (before[-1]["offset"], before[-1]["ts"]) if before else (0, 0)
    lost_ms = [at_ms for offset, at_ms in acknowledged if offset > written_until]
    said = [record for record in caplog.records if LOST in record.getMessage()]
    if lost_ms:
        assert said
        args = [record.args for record in said]
        since_ms = min(
            datetime.fromisoformat(str(each[2])).timestamp() * 1000 for each in args if isinstance(each, tuple)
        )
        assert written_ms - 20 <= since_ms, "a file has the machine's time, a tick of the kernel old"
        assert since_ms - 20 <= lost_ms[0], "it is there before the first commit of the window is acknowledged"
    assert not [*(storage / "metrics" / "spool").rglob("*.jsonl")]
    (registered, *_) = of_group(storage, "registrations", "big")
    assert registered["event"] == "registered"
    assert [row["event"] for row in of_group(storage, "group_events", "big")][:3] == [
        "member_added",
        "generation",
        "assignment",
    ]


def test_what_is_not_durable_is_not_recorded(storage: Path) -> None:
    async def scenario() -> None:
        disk = BrokenDisk()
        shell = Shell(storage / "log", 1, disk=disk)
        history = GroupHistory(
            shell.partition, storage, MusterConfig.from_properties(SELDOM), offsets_partitions=50, now_ms=now_ms
        )
        history.start()
        channel = await shell.serve(storage / "a.sock")
        assert await commit(channel, 5) == {ErrorCode.none}
        disk.broken = True
        assert await commit(channel, 6) != {ErrorCode.none}
        await shell.ended.wait()
        await shell.partition.stop()
        await history.close()
        await shell.server.stop()

    run(scenario)
    assert [row["offset"] for row in of_group(storage, "commits")] == [5]


def test_resigning_writes_the_open_window_and_leaves_nothing_behind(
    storage: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def life(epoch: int, *offsets: int) -> None:
        shell = Recorded(storage, epoch, SELDOM)
        channel = await shell.serve(storage / f"{epoch}.sock")
        for offset in offsets:
            assert await commit(channel, offset, partitions=3) == {ErrorCode.none}
        await shell.stop()

    run(lambda: life(1, 5, 7))
    run(lambda: life(2, 6))
    recorded = [
        (row["epoch"], row["partition"], row["previous"], row["offset"]) for row in of_group(storage, "commits")
    ]
    assert sorted(recorded) == [(1, p, None, 7) for p in range(3)] + [(2, p, 7, 6) for p in range(3)]
    assert not [*(storage / "metrics" / "spool").glob("*/*")]
    assert LOST not in caplog.text


def test_deleted_offsets_and_groups_are_recorded(storage: Path) -> None:
    async def scenario() -> None:
        shell = Recorded(storage, 1, SELDOM)
        channel = await shell.serve(storage / "a.sock")
        assert await commit(channel, 5, partitions=2) == {ErrorCode.none}
        await exchange(channel, 42, 1, groups_names=[GROUP])
        await shell.stop()

    run(scenario)
    assert [(row["kind"], row["offset"], row["lowest"], row["commits"]) for row in of_group(storage, "commits")] == [
        ("deleted", None, 5, 1)
    ] * 2
    assert [row["event"] for row in of_group(storage, "group_events")] == ["group_removed"]


def test_a_client_without_membership_is_registered_until_the_next_coordinator(storage: Path) -> None:
    """The client is nowhere in the log, so only the next coordinator's snapshot ends it."""
    at_ms: list[int] = []

    async def life(epoch: int, *, commits: bool) -> None:
        shell = Recorded(storage, epoch, SELDOM)
        if commits:
            channel = await shell.serve(storage / f"{epoch}.sock")
            assert await commit(channel, 5) == {ErrorCode.none}
        await shell.stop()
        at_ms.append(now_ms())
        while now_ms() < at_ms[-1] + 2:  # noqa: ASYNC110 - the clock itself is awaited
            await asyncio.sleep(0.001)

    run(lambda: life(1, commits=True))
    run(lambda: life(2, commits=False))
    rows = table_rows(storage, "registrations")
    assert [row["event"] for row in rows if row["epoch"] == 2] == ["snapshot"]
    assert [row["kind"] for row in held_at(rows, at_ms[0]).values()] == ["simple"]
    assert held_at(rows, at_ms[1]) == {}


def test_snapshots_come_again(storage: Path) -> None:
    async def scenario() -> None:
        shell = Recorded(storage, 1, OFTEN | {"metrics.registrations.snapshot.ms": "1000"})
        channel = await shell.serve(storage / "a.sock")
        assert await commit(channel, 5) == {ErrorCode.none}
        while len([row for row in table_rows(storage, "registrations") if row["event"] == "snapshot"]) < 2:
            assert await commit(channel, 5) == {ErrorCode.none}
        await shell.stop()

    run(scenario)
    first, said, again, second = (
        [(row["event"], row["sequence"]) for row in table_rows(storage, "registrations")][index] for index in range(4)
    )
    assert (first, said) == (("snapshot", 0), ("registered", 1))
    assert (again, second) == (("registered", 1), ("snapshot", 1))
    counts = {(row["event"], row["offsets_partitions"]) for row in table_rows(storage, "registrations")}
    assert counts == {("snapshot", 50), ("registered", None)}


def test_a_folder_that_cannot_be_written_disturbs_no_client(storage: Path, caplog: pytest.LogCaptureFixture) -> None:
    (storage / "metrics").write_text("a file where the folder should be")

    async def scenario() -> None:
        shell = Recorded(storage, 1, OFTEN)
        channel = await shell.serve(storage / "a.sock")
        for offset in range(100):
            assert await commit(channel, offset) == {ErrorCode.none}
        (storage / "metrics").unlink()
        assert await commit(channel, 100) == {ErrorCode.none}
        await shell.stop()

    run(scenario)
    rows = of_group(storage, "commits")
    assert (rows[0]["previous"], rows[-1]["offset"]) == (None, 100)
    assert sum(row["commits"] for row in rows) == 101

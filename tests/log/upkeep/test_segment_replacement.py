"""Retention, DeleteRecords and compaction, stopped at every step of the disk, and with a newer leader."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from muster.actors.log import committer
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import LogError, NotLeader
from muster.actors.log.files import loading, recovery
from muster.actors.log.files.directory import Claim
from muster.actors.log.files.manifest import Manifest
from muster.actors.log.files.segment import Segment
from muster.actors.log.partition import PartitionLog
from tests.log.steps import Broken, Gate, SteppingDisk, content, latest, opened
from tests.log.support import run
from tests.log.upkeep.test_cleaner import Pairs, keyed

CONFIG = LogConfig(
    segment_bytes=330,
    cleanup_policy="compact,delete",
    retention_ms=-1,
    min_cleanable_dirty_ratio=0,
    max_message_bytes=330,
)
RECORDS = 24
Row = tuple[int, bytes | None, bytes | None]
Op = Callable[[PartitionLog], Awaitable[object]]


async def retention(log: PartitionLog) -> object:
    log.config = dataclasses.replace(CONFIG, retention_bytes=900)
    return await log.apply_retention()


async def deletion(log: PartitionLog) -> object:
    return await log.delete_records(9)


async def compaction(log: PartitionLog) -> object:
    return await log.clean()


OPS: dict[str, Op] = {"retention": retention, "deletion": deletion, "compaction": compaction}


async def write_third(log: PartitionLog) -> None:
    """Write a third of all records: four batches in two segments."""
    for number in range(log.log_end_offset, log.log_end_offset + RECORDS // 3, 2):
        pairs: Pairs = [(b"%d" % (at % 7), b"%d" % at if at != 10 else None) for at in (number, number + 1)]
        await log.append(keyed(pairs, producer=(5, 0, number)))


async def writer(directory: Path, disk: SteppingDisk | None = None) -> PartitionLog:
    """Open the epoch that makes the change; the last third of the records is its own."""
    log = opened(directory, 3, CONFIG, disk)
    await write_third(log)
    await log._writer.append_times.flush()
    if disk is not None:
        disk.watch_claim(log)
        disk.is_on = True
    return log


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two records per batch, two batches per segment, by two epochs; few keys, a tombstone."""
    directory = tmp_path_factory.mktemp("original") / "t-0"

    async def main() -> None:
        for epoch in (1, 2):
            log = opened(directory, epoch, CONFIG)
            await write_third(log)
            await log.close()

    run(main())
    return directory


@pytest.fixture
def copies(original: Path, tmp_path: Path) -> Callable[[], Path]:
    """Return a function that copies the original, one copy after the other."""

    def copy() -> Path:
        shutil.rmtree(tmp_path / "t-0", ignore_errors=True)
        shutil.copytree(original, tmp_path / "t-0")
        return tmp_path / "t-0"

    return copy


def check(op: str, before: list[Row], log: PartitionLog, *, is_done: bool, appended: list[Row] = []) -> None:  # noqa: B006
    """Every record from the log start on, exactly once, in order; for a compacted log the last of each key."""
    found = content(log)
    start = log.log_start_offset
    assert log.high_watermark == RECORDS + len(appended)
    if op == "compaction":
        assert start == 0
        assert latest(found) == latest(before + appended)
        assert found == sorted(set(found) & set(before + appended))
    else:
        assert found == [row for row in before + appended if row[0] >= start]
        assert start in (0, 9) or op == "retention"
        assert start > 0 or not is_done
    for offset in range(start, log.high_watermark):
        log.read(offset, 1000, at_least_one=True)


def test_what_is_checked_happens_at_all(copies: Callable[[], Path]) -> None:
    async def main(name: str) -> None:
        log = await writer(copies())
        before = content(log)
        assert await OPS[name](log)
        check(name, before, log, is_done=True)
        assert len(content(log)) < len(before) == RECORDS
        await log.close()

    for name in OPS:
        run(main(name))


async def steps_of(directory: Path, op: Op) -> list[str]:
    """Return the names of its steps."""
    names: list[str] = []
    disk = SteppingDisk(lambda _, name: names.append(name))
    log = await writer(directory, disk)
    await op(log)
    disk.is_on = False
    await log.close()
    return names


def stops(steps: list[str]) -> list[int]:
    """All steps; of the file removals only the first two and the last."""
    unlinks = [at for at, step in enumerate(steps) if step == "unlink"]
    return [at for at in range(len(steps)) if at not in unlinks[2:-1]]


@pytest.mark.parametrize("name", OPS)
def test_a_crash_at_any_step_loses_nothing(copies: Callable[[], Path], name: str) -> None:
    """From one step on nothing happens any more. Then the next leader opens, and another one after it."""

    async def main() -> None:
        steps = await steps_of(copies(), OPS[name])
        assert {"rename", "claim", "unlink"} <= set(steps)
        for at in stops(steps):
            directory = copies()
            disk = SteppingDisk(broken := Broken(at, for_ever=True))
            dead = await writer(directory, disk)
            before = content(dead)
            try:
                await OPS[name](dead)
                is_done = True
            except LogError:
                is_done = False
            assert broken.reached == steps[at]
            log = opened(directory, 4, CONFIG)
            check(name, before, log, is_done=is_done)
            await log.append(keyed([(b"new", b"new")]))
            appended: list[Row] = [(RECORDS, b"new", b"new")]
            await OPS[name](log)
            check(name, before, log, is_done=is_done, appended=appended)
            await log.close()
            log = opened(directory, 5, CONFIG)
            check(name, before, log, is_done=is_done, appended=appended)
            await log.close()
            await dead.close()

    run(main(), timeout_s=120)


@pytest.mark.parametrize("name", OPS)
def test_after_a_step_that_failed_the_same_writer_goes_on(
    copies: Callable[[], Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "RETRY_AFTER_S", 0)

    async def main() -> None:
        steps = await steps_of(copies(), OPS[name])
        for at in stops(steps):
            directory = copies()
            disk = SteppingDisk(Broken(at, for_ever=False))
            log = await writer(directory, disk)
            before = content(log)
            try:
                await OPS[name](log)
            except LogError:
                check(name, before, log, is_done=False)
            await log.append(keyed([(b"new", b"new")]))
            appended: list[Row] = [(RECORDS, b"new", b"new")]
            check(name, before, log, is_done=False, appended=appended)
            await OPS[name](log)
            check(name, before, log, is_done=True, appended=appended)
            await log.close()
            log = opened(directory, 4, CONFIG)
            check(name, before, log, is_done=True, appended=appended)
            stems = {path.stem for path in directory.glob("*.log")}
            assert stems == {segment.path.stem for segment in log._writer.segments}
            await log.close()

    run(main(), timeout_s=120)


@pytest.mark.parametrize("name", OPS)
def test_a_fenced_writer_that_goes_on_late_changes_nothing(copies: Callable[[], Path], name: str) -> None:
    """It stops before each of its steps; a newer leader opens and writes; then it continues."""

    async def main() -> None:
        for at in stops(await steps_of(copies(), OPS[name])):
            directory = copies()
            disk = SteppingDisk(gate := Gate(at))
            old = await writer(directory, disk)
            before = content(old)
            task = asyncio.ensure_future(_outcome(OPS[name](old)))
            await asyncio.to_thread(gate.reached.wait, 20)
            new = opened(directory, 4, CONFIG)
            await new.append(keyed([(b"new", b"new")]))
            appended: list[Row] = [(RECORDS, b"new", b"new")]
            seen = content(new)
            gate.opened.set()
            is_done = await task
            check(name, before, new, is_done=is_done, appended=appended)
            assert content(new) == seen
            await old.close()
            assert content(new) == seen
            await new.close()
            again = opened(directory, 5, CONFIG)
            assert content(again) == seen
            await OPS[name](again)
            check(name, before, again, is_done=True, appended=appended)
            await again.close()

    run(main(), timeout_s=120)


OPENING = {
    "claim": (Claim, "take"),
    "list": (recovery, "_file_names"),
    "find the manifest": (recovery, "manifests"),
    "read the manifest": (Manifest, "read"),
    "load": (loading, "load"),
    "write the manifest": (Manifest, "write"),
    "create": (Segment, "create"),
    "check": (Claim, "check"),
    "tidy": (recovery, "_tidy"),
}


@pytest.mark.parametrize("point", OPENING)
@pytest.mark.parametrize("name", OPS)
def test_a_leader_that_opens_in_the_middle_of_it(
    copies: Callable[[], Path], name: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one stops at a step, the new one opens up to a point; the old one runs to its end, then the new one."""
    gate = threading.Event()
    reached = threading.Event()
    owner, attribute = OPENING[point]
    real = getattr(owner, attribute)

    def stopping(*args: object, **kwargs: object) -> object:
        if threading.current_thread().name == "opener":
            reached.set()
            assert gate.wait(20)
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, attribute, stopping)
    made: list[PartitionLog] = []

    async def main() -> None:
        steps = await steps_of(copies(), OPS[name])
        first = steps.index("rename") - 3  # earlier steps have no visible effect
        for at in [at for at in stops(steps) if at >= first]:
            directory = copies()
            gate.clear()
            reached.clear()
            made.clear()
            disk = SteppingDisk(old_gate := Gate(at))
            old = await writer(directory, disk)
            before = content(old)
            task = asyncio.ensure_future(_outcome(OPS[name](old)))
            await asyncio.to_thread(old_gate.reached.wait, 20)
            opener = threading.Thread(target=lambda at=directory: made.append(opened(at, 4, CONFIG)), name="opener")
            opener.start()
            await asyncio.to_thread(reached.wait, 20)
            old_gate.opened.set()
            is_done = await task
            gate.set()
            await asyncio.to_thread(opener.join, 20)
            [new] = made  # only it opens the log: nothing may prevent that
            check(name, before, new, is_done=is_done)
            await new.append(keyed([(b"new", b"new")]))
            appended: list[Row] = [(RECORDS, b"new", b"new")]
            seen = content(new)
            await old.close()
            await new.close()
            again = opened(directory, 5, CONFIG)
            assert content(again) == seen
            check(name, before, again, is_done=is_done, appended=appended)
            await again.close()

    try:
        run(main(), timeout_s=120)
    finally:
        gate.set()


async def _outcome(work: Awaitable[object]) -> bool:
    """Whether it completed; otherwise it was fenced."""
    try:
        await work
    except NotLeader:
        return False
    return True

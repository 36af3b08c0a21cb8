"""Two writers on one directory: the older can neither acknowledge nor make anything visible, whenever it runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import FencedEpoch, NotLeader
from muster.actors.log.files import loading
from muster.actors.log.files.directory import Claim
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.manifest import Manifest
from muster.actors.log.files.segment import Segment
from muster.actors.log.format.batch import stamp
from muster.actors.log.partition import PartitionLog
from tests.log.support import client_batch, open_log, run, segment_files

SMALL = LogConfig(segment_bytes=1000)


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in log.replay()]


def values(log: PartitionLog) -> list[bytes | None]:
    return [record.value for record in log.replay()]


def test_an_epoch_that_was_seen_cannot_open(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 5)
        for epoch in (4, 5):
            with pytest.raises(FencedEpoch):
                open_log(tmp_path / "t-0", epoch)
        await log.append(client_batch())  # the attempts did not harm it
        await log.close()

    run(main())


def test_the_old_writer_cannot_acknowledge_and_is_over(tmp_path: Path) -> None:
    async def main() -> None:
        old = open_log(tmp_path / "t-0", 1)
        await old.append(client_batch(2, value=b"old"))
        new = open_log(tmp_path / "t-0", 2)
        woken = asyncio.Event()
        with old.watching(woken.set):
            outcomes = await asyncio.gather(*(old.append(client_batch(1)) for _ in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [NotLeader] * 3
        assert woken.is_set()
        assert old.is_over
        for attempt in (old.append(client_batch()), old.append_records([(b"k", b"v")], 1), old.append_records([], 1)):
            with pytest.raises(NotLeader):
                await attempt
        with pytest.raises(NotLeader):
            old.read(0, 100, at_least_one=True)
        assert offsets(new) == [0, 1]
        assert (await new.append(client_batch(1, value=b"new"))).base_offset == 2
        await old.close()
        await new.close()
        again = open_log(tmp_path / "t-0", 3)
        assert values(again) == [b"old", b"old", b"new"]
        await again.close()

    run(main())


@pytest.mark.parametrize("new_writes", [0, 3, 30])
def test_bytes_that_the_old_writer_adds_later_are_never_read(tmp_path: Path, new_writes: int) -> None:
    """Behind the scanned end of its open file, and in a segment that it starts."""

    async def main() -> None:
        directory = tmp_path / "t-0"
        old = open_log(directory, 1, config=SMALL)
        await old.append(client_batch(2, value=b"old"))
        [old_file] = segment_files(directory)
        new = open_log(directory, 2, config=SMALL)
        for _ in range(new_writes):
            await new.append(client_batch(1, value=b"new"))
        with old_file.open("ab") as file:
            for offset in range(2, 12):
                zombie = bytearray(client_batch(1, value=b"zombie"))
                stamp(zombie, offset, 1)
                file.write(zombie)
        with pytest.raises(NotLeader):
            await old.append(client_batch(1, value=b"z" * 900))  # too large for its segment
        assert any(path.name.startswith("00000000000000000002.1.") for path in segment_files(directory))
        await old.close()
        expected = [b"old", b"old"] + [b"new"] * new_writes
        assert values(new) == expected
        assert new.high_watermark == len(expected)
        await new.close()
        for epoch in (3, 4):
            again = open_log(directory, epoch, config=SMALL)
            assert values(again) == expected
            await again.close()

    run(main())


def test_what_was_written_but_not_acknowledged_stays_if_the_new_leader_saw_it(tmp_path: Path) -> None:
    """A writer whose fdatasync fails, or that finds itself fenced, reverts nothing on which the new leader relies."""

    class Scanned(Disk):
        """Another leader takes over between write and fdatasync."""

        def __init__(self, directory: Path, fails: bool) -> None:
            self.directory = directory
            self.fails = fails
            self.other: PartitionLog | None = None

        def sync(self, fd: int) -> None:
            if self.other is None and any(file.stat().st_size for file in segment_files(self.directory)):
                self.other = open_log(self.directory, 2)
                if self.fails:
                    raise OSError("no")
            super().sync(fd)

    async def main(directory: Path, fails: bool) -> None:
        disk = Scanned(directory, fails)
        old = open_log(directory, 1, disk=disk)
        with pytest.raises(NotLeader):
            await old.append(client_batch(2))
        assert disk.other is not None
        assert offsets(disk.other) == [0, 1]
        await disk.other.append(client_batch(1))
        await old.close()
        await disk.other.close()
        again = open_log(directory, 3)
        assert offsets(again) == [0, 1, 2]
        await again.close()

    run(main(tmp_path / "fenced", fails=False))
    run(main(tmp_path / "failed", fails=True))


def test_a_writer_whose_directory_is_gone_is_fenced(tmp_path: Path) -> None:
    async def main(size: int) -> None:
        directory = tmp_path / f"t-{size}"
        log = open_log(directory, 1, config=SMALL)
        await log.append(client_batch(1))
        directory.rename(directory.with_suffix(".aside"))
        with pytest.raises(NotLeader):
            await log.append(client_batch(1, value=bytes(size)))
        await log.close()

    run(main(1))
    run(main(900))  # does not fit into the active segment


@pytest.mark.parametrize("step", ["claim", "scan", "manifest", "segment"])
def test_an_opener_that_was_paused_changes_nothing(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epoch 2 stops at a step of opening; epoch 1 continues or is fenced, epoch 3 opens and writes; then 2 resumes."""
    directory = tmp_path / "t-0"
    paused, resume = threading.Event(), threading.Event()

    def stops(then: Callable[..., object]) -> Callable[..., object]:
        def run_it(*args: object, **kwargs: object) -> object:
            if threading.current_thread().name == "opener":
                paused.set()
                assert resume.wait(10)
            return then(*args, **kwargs)

        return run_it

    seam = {
        "claim": (Claim, "take"),
        "scan": (loading, "load"),
        "manifest": (Manifest, "write"),
        "segment": (Segment, "create"),
    }[step]
    monkeypatch.setattr(*seam, stops(getattr(*seam)))
    outcome: list[object] = []

    def open_second() -> None:
        try:
            outcome.append(open_log(directory, 2, config=SMALL))
        except NotLeader as error:
            outcome.append(error)

    async def main() -> None:
        first = open_log(directory, 1, config=SMALL)
        await first.append(client_batch(2, value=b"first"))
        opener = threading.Thread(target=open_second, name="opener")
        opener.start()
        await asyncio.to_thread(paused.wait, 10)
        expected = [b"first"] * 2
        try:
            await first.append(client_batch(2, value=b"more"))
            expected += [b"more"] * 2
            assert step == "claim"
        except NotLeader:
            # written, not acknowledged, and whole: the next leader may keep it
            expected += [b"more"] * 2 if step != "claim" else []
        third = open_log(directory, 3, config=SMALL)
        if step == "segment":  # the manifest of 2 existed: the log ends where that says
            expected = [b"first"] * 2
        assert values(third) == expected
        await third.append(client_batch(3, value=b"third"))
        resume.set()
        await asyncio.to_thread(opener.join, 10)
        assert isinstance(outcome[0], NotLeader)
        await third.append(client_batch(1, value=b"third"))
        expected += [b"third"] * 4
        await first.close()
        await third.close()
        for epoch in (4, 5):
            again = open_log(directory, epoch, config=SMALL)
            assert values(again) == expected
            await again.close()

    try:
        run(main())
    finally:
        resume.set()

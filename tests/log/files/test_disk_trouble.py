"""Any disk error in any place: refused with KAFKA_STORAGE_ERROR, logged once, and over when the error is."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.log import committer
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import StorageError
from muster.actors.log.files.disk import Disk
from muster.actors.log.partition import PartitionLog
from tests.log.support import client_batch, open_log, run

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EMFILE)
SMALL = LogConfig(segment_bytes=300)


class Failing(Disk):
    """One of the calls fails while ``code`` is set; a write leaves half of its data."""

    def __init__(self, call: str) -> None:
        self.call = call
        self.code = 0

    def _check(self, call: str) -> None:
        if self.code and call == self.call:
            raise OSError(self.code, os.strerror(self.code))

    def create(self, path: Path) -> int:
        self._check("create")
        return super().create(path)

    def write(self, fd: int, content: bytes | bytearray, position: int) -> None:
        if self.code and self.call == "write":
            super().write(fd, content[: len(content) // 2], position)
        self._check("write")
        super().write(fd, content, position)

    def sync(self, fd: int) -> None:
        self._check("sync")
        super().sync(fd)


async def refused(log: PartitionLog, batch: bytes) -> None:
    with pytest.raises(StorageError) as error:
        await log.append(batch)
    assert error.value.code is ErrorCode.kafka_storage_error


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", ["write", "sync", "create"])
def test_appends(
    tmp_path: Path, call: str, code: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "RETRY_AFTER_S", 0.0)
    caplog.set_level(logging.WARNING, "muster.actors.log.trouble")

    def batch(number: int) -> bytes:
        return client_batch(1, producer=(5, 0, number), value=b"%d" % number * 50)

    async def main() -> None:
        disk = Failing(call)
        log = open_log(tmp_path / "t-0", 1, config=SMALL, disk=disk)
        other = open_log(tmp_path / "other-0", 1, config=SMALL)
        for number in range(2):  # the next one needs a new segment
            await log.append(batch(number))
        disk.code = code
        for _ in range(3):
            await refused(log, batch(2))
            assert (await other.append(client_batch(1))).base_offset >= 0
            assert log.read(0, 1, at_least_one=True)
        disk.code = 0
        for number in range(2, 6):
            result = await log.append(batch(number))
            assert (result.base_offset, result.duplicate) == (number, False)
        assert [record.offset for record in log.replay()] == list(range(6))
        await log.close()
        await other.close()
        again = open_log(tmp_path / "t-0", 2, config=SMALL)
        assert [record.value[:1] for record in again.replay() if record.value] == [b"%d" % n for n in range(6)]
        await again.close()

    run(main())
    lines = [record.message for record in caplog.records if record.name == "muster.actors.log.trouble"]
    assert [os.strerror(code) in line for line in lines] == [True, False], lines
    assert "all is well again" in lines[1]


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE], ids=errno.errorcode.get)
def test_reads(tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> bytes:
        raise OSError(code, os.strerror(code))

    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1, config=SMALL)
        await log.append(client_batch(1))
        queries: list[Callable[[], object]] = [
            lambda: log.read(0, 1, at_least_one=True),
            lambda: log.offset_for_time(0),
            lambda: log.offset_of_max_timestamp(),
            lambda: list(log.replay()),
        ]
        with monkeypatch.context() as patched:
            patched.setattr(os, "pread", broken)
            for query in queries:
                with pytest.raises(StorageError) as error:
                    query()
                assert error.value.code is ErrorCode.kafka_storage_error
        assert log.corrupt_segments == 0, "an error of the disk is not damage"
        for query in queries:
            assert query()
        await log.close()

    run(main())


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", ["write", "create"])
def test_opening(tmp_path: Path, call: str, code: int) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        await log.append(client_batch(3))
        disk = Failing(call)
        disk.code = code
        for epoch in (2, 3):
            with pytest.raises(StorageError):
                open_log(tmp_path / "t-0", epoch, disk=disk)
        disk.code = 0
        again = open_log(tmp_path / "t-0", 4, disk=disk)
        assert [record.offset for record in again.replay()] == [0, 1, 2]
        await again.close()
        await log.close()

    run(main())

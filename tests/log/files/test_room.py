"""Clients' records leave the reserve alone; what Muster writes for itself uses it."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from muster.actors.log import committer
from muster.actors.log.errors import StorageError
from muster.actors.log.files import room
from muster.actors.log.files.disk import DISK, Disk
from muster.actors.log.files.room import Room, SharedDisk, room_at
from tests.log.support import client_batch, open_log, run, segment_files


def test_records_are_refused_by_name_while_only_the_reserve_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_bytes = [1000]
    monkeypatch.setattr(room, "room_at", lambda _: Room(free_bytes[0], 1000))
    monkeypatch.setattr(room, "_LOOK_INTERVAL_S", 0)
    monkeypatch.setattr(committer, "RETRY_AFTER_S", 0)

    async def main() -> None:
        clients, own = (open_log(tmp_path / name, 1, disk=disk) for name, disk in _LOGS.items())
        for log in (clients, own):
            await log.append(client_batch(1))
        free_bytes[0] = 999
        for _ in range(3):
            with pytest.raises(StorageError, match="No space left on device for records") as refused:
                await clients.append(client_batch(1))
            assert isinstance(refused.value.__cause__, OSError)
            assert refused.value.__cause__.errno == errno.ENOSPC
        assert len(segment_files(tmp_path / "clients")) == 1
        assert (await own.append(client_batch(1))).base_offset == 1
        free_bytes[0] = 1000
        assert (await clients.append(client_batch(1))).base_offset == 1
        await asyncio.gather(clients.close(), own.close())

    run(main())


_LOGS: dict[str, Disk] = {"clients": SharedDisk(), "own": DISK}


def test_the_reserve_is_a_small_share_of_the_file_system(tmp_path: Path) -> None:
    found = room_at(tmp_path)
    assert 0 < found.reserve_bytes <= 64 << 20

"""The file that holds space until other programs have filled the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.actors.log.files.room import Room
from muster.actors.runtime.storage import reserve
from muster.actors.runtime.storage.reserve import Reserve

SIZE = 1 << 20


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path


class Space:
    """A file system with the given room, in which the reserve takes its share."""

    def __init__(self, storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.without_reserve = 100 * SIZE
        self.file = storage / "run" / "reserve"
        monkeypatch.setattr(reserve, "room_at", lambda _: Room(max(0, self.without_reserve - self.held), SIZE))

    @property
    def held(self) -> int:
        return self.file.stat().st_blocks * 512 if self.file.exists() else 0


def test_it_is_given_up_when_others_fill_the_disk_and_made_again_when_there_is_room(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, kept = Space(storage, monkeypatch), Reserve(storage)
    assert kept.keep() is None
    assert space.held == SIZE // 2
    space.without_reserve = SIZE
    assert "is full" in str(kept.keep())
    assert kept.keep() is None, "said once"
    assert space.held == SIZE // 2, "there is still something else"
    space.without_reserve = SIZE // 2
    assert kept.keep() is None
    assert space.held == 0
    assert room_is_refused(space), "what it held is not for records"
    space.without_reserve = 2 * SIZE
    assert "room again" in str(kept.keep())
    assert space.held == SIZE // 2


def room_is_refused(space: Space) -> bool:
    return Room(space.without_reserve - space.held, SIZE).is_full


def test_a_start_on_a_full_disk_takes_it(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(storage, monkeypatch)
    Reserve(storage).keep()
    space.without_reserve = space.held
    assert Reserve(storage).release_if_needed() == Room(SIZE // 2, SIZE)
    assert space.held == 0

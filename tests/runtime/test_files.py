"""A replaced file is complete, or unchanged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.actors.runtime.files import write_atomically


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_the_text_replaces_what_was_there(tmp_path: Path, mode: int) -> None:
    path = tmp_path / ("ü" * 100)
    for text in ("before", "aftér\n"):
        write_atomically(path, text, mode=mode)
        assert path.read_text(encoding="utf-8") == text
    assert path.stat().st_mode & 0o777 == mode
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    write_atomically(path, "before")

    def full(fd: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]

"""A file or a folder for a user: whole or not at all. No Spark."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from muster.spark.out import CannotWrite, check_file, check_folder, require_parts, said, whole_folder, write_file


def test_a_file_is_replaced_whole_and_a_link_to_it_stays(tmp_path: Path) -> None:
    file, link = tmp_path / "answer.json", tmp_path / "latest.json"
    link.symlink_to(file)
    for text in ("old", "new"):
        write_file(link, text)
    assert (file.read_text(), link.is_symlink()) == ("new\n", True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answer.json", "latest.json"]


def test_of_a_file_that_cannot_be_written_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(CannotWrite, match=r"answer\.json cannot be written: No space left on device"):
        write_file(tmp_path / "answer.json", "text")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "text")
    reader.join()
    assert (read, pipe.is_fifo()) == (["text\n"], True)


def test_where_nothing_can_be_written_is_known_before(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="is a folder: name a file"):
        check_file(tmp_path)
    with pytest.raises(CannotWrite, match=r"there is no folder .*missing"):
        check_file(tmp_path / "missing" / "answer.json")
    check_file(tmp_path / "answer.json")
    check_folder(tmp_path / "missing" / "folder")
    check_folder(tmp_path)
    (tmp_path / "note.txt").touch()
    for path in (tmp_path, tmp_path / "note.txt"):
        with pytest.raises(CannotWrite, match="exists already"):
            check_folder(path)


def test_a_folder_is_there_when_it_is_whole(tmp_path: Path) -> None:
    wanted = tmp_path / "of" / "answers"
    with suppress(KeyboardInterrupt), whole_folder(wanted) as folder:
        (folder / "groups").mkdir(parents=True)
        raise KeyboardInterrupt
    assert list(wanted.parent.iterdir()) == []
    with whole_folder(wanted) as folder:
        (folder / "groups").mkdir(parents=True)
        assert not wanted.exists()
    assert [path.name for path in wanted.iterdir()] == ["groups"]


def test_what_an_executor_wrote_elsewhere_is_missed(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(FileNotFoundError) as missed:
        require_parts(tmp_path)
    assert said(missed.value) == (
        f"{tmp_path}: its files are on the nodes of the executors: name a folder that all nodes share"
    )
    (tmp_path / "part-00000-x.snappy.parquet").touch()
    require_parts(tmp_path)

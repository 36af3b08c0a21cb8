"""Writes files and folders for users that exist completely or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.actors.runtime.files import write_atomically


class CannotWrite(RuntimeError):
    """The message is one line that names the path."""


def said(error: OSError) -> str:
    """Return the problem and its path, without the error number."""
    text = error.strerror or str(error) or type(error).__name__
    return text if error.filename is None else f"{error.filename}: {text}"


def check_file(path: Path) -> None:
    """Raise CannotWrite if :func:`write_file` could not write there."""
    if path.is_dir():
        raise CannotWrite(f"{path} is a folder: name a file")
    if not path.parent.is_dir():
        raise CannotWrite(f"{path} cannot be written: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise CannotWrite(f"{path} cannot be written: no permission for {path.parent}")


def write_file(path: Path, text: str) -> None:
    """Write the text. A link is kept and its target replaced; a non-file (a pipe) is written to. Raises CannotWrite."""
    text = text if text.endswith("\n") else f"{text}\n"
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        write_atomically(path.resolve(), text, mode=0o644)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror}") from error


def check_folder(path: Path) -> None:
    """Raise CannotWrite if the path exists, unless it is an empty folder."""
    if path.exists() and not (path.is_dir() and next(path.iterdir(), None) is None):
        raise CannotWrite(f"{path} exists already: name a new folder")


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``, renamed to it at the end, or removed on an error. Raises
    CannotWrite."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _gone_unless_done(path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex[:8]}")) as partial:
            yield partial
            partial.rename(path)
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror}") from error


def require_parts(folder: Path) -> None:
    """Raise FileNotFoundError if Spark wrote there and none of it is visible here."""
    if not any(folder.glob("part-*")):
        why = "its files are on the nodes of the executors: name a folder that all nodes share"
        raise FileNotFoundError(errno.ENOENT, why, str(folder))


@contextmanager
def _gone_unless_done(partial: Path) -> Iterator[Path]:
    try:
        yield partial
    except BaseException:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)
        raise

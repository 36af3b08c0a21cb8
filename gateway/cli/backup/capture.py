"""Capture of files that Muster writes to, with hard links: their names may go meanwhile, and they may grow.

Muster appends to files, creates new ones, or replaces files by renaming; only ``recovery-point-*`` and the spool of the
tables are changed in place, and both are left out: the first only says which damage a crash cannot explain, the second
holds rows that are not in their tables yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from muster.gateway.cli.errors import CliError

_LEFT_OUT_PREFIX = ("recovery-point-", ".")
_LEFT_OUT_SUFFIX = ".tmp"
_PENDING_DELETION = "-delete"
_ATTEMPTS = 50


@dataclass(frozen=True, slots=True)
class Captured:
    """A file as it was at a moment."""

    link: Path
    path: str
    """Below storage.path."""
    size_bytes: int


def partitions(storage: Path) -> list[Path]:
    """Return the directories of logs, without those of deleted topics. Raises OSError."""
    logs = storage / "logs"
    if not logs.is_dir():
        return []
    return sorted(entry for entry in logs.iterdir() if entry.is_dir() and not entry.name.endswith(_PENDING_DELETION))


def hours_of_tables(storage: Path) -> list[Path]:
    """Return the folders below ``metrics/`` that hold files of tables. Raises OSError."""
    root = storage / "metrics"
    found = (Path(folder) for folder, _, files in os.walk(root) if files)
    return sorted(folder for folder in found if folder.relative_to(root).parts[:1] != ("spool",))


def capture(storage: Path, folders: list[Path], into: Path) -> list[Captured]:
    """Link the files of the folders into ``into``, which is on the same file system. Raises CliError or OSError.

    Called again, it links only new and replaced files. A folder that is gone by then is left out.
    """
    found = []
    for folder in folders:
        with suppress(FileNotFoundError):
            found += list(_folder(storage, folder, into))
    return found


def _folder(storage: Path, folder: Path, into: Path) -> Iterator[Captured]:
    """Yield each name at a moment at which the folder did not change. Raises FileNotFoundError if the folder is
    gone."""
    target = into / folder.relative_to(storage)
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    for _ in range(_ATTEMPTS):
        before = _listing(folder)
        sizes = {name: _linked(f"{folder}/{name}", f"{target}/{name}", inode) for name, inode in before.items()}
        if None not in sizes.values() and _listing(folder) == before:
            break
    else:
        raise CliError(f"{folder} changes too fast to be captured; try again")
    for name, size_bytes in sizes.items():
        assert size_bytes is not None
        yield Captured(target / name, str((folder / name).relative_to(storage)), size_bytes)


def _listing(folder: Path) -> dict[str, int]:
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries if _counts(entry)}


def _counts(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    if name.startswith(_LEFT_OUT_PREFIX) or name.endswith(_LEFT_OUT_SUFFIX):
        return False
    return entry.is_file(follow_symlinks=False)


def _linked(path: str, link: str, inode: int) -> int | None:
    """Link that file at ``link`` if necessary. Return its size; None if its name is gone or another's by now."""
    with suppress(FileNotFoundError):
        if (found := os.stat(link)).st_ino == inode:  # noqa: PTH116 - for each file, while clients wait
            return found.st_size
        Path(link).unlink()
    try:
        os.link(path, link)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CliError(
            f"{path} cannot be linked ({error.strerror}): stop Muster first, or use a file system with hard links"
        ) from error
    found = os.stat(link)  # noqa: PTH116 - likewise
    return found.st_size if found.st_ino == inode else None

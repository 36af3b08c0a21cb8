"""The hour folders of a table, and which of their files count.

A folder ``date=YYYY-MM-DD/hour=HH`` (UTC) holds::

    <owner>-<run>-<number>.parquet    as written by an actor
    merged-<id>.parquet               rows of several files as one (:mod:`muster.actors.tables.compaction`)
    _superseded-<id>.json             the names of the files whose rows merged-<id>.parquet has: they do not count
    _expired.json                     the hour is past its retention: nothing in the folder counts

A manifest exists before its merged file and for as long as it. So at the moment when the merged file gets its name,
the rows count there and no longer in the other files. Files that do not count stay for a while, for readers that began
before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath

HOUR_MS = 3_600_000
MERGED = "merged-"
SUPERSEDED = "_superseded-"
EXPIRED = "_expired.json"
_ATTEMPTS = 5
_DATE = re.compile(r"date=\d{4}-\d\d-\d\d")
_HOUR = re.compile(r"hour=\d\d")


class TableDamaged(Exception):
    """A file that cannot be read, or not as a part of its table. ``str``: its path and the problem, in one line."""

    def __init__(self, path: Path | str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = Path(path)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour folder."""

    path: Path
    start_ms: int

    @property
    def end_ms(self) -> int:
        """Exclusive."""
        return self.start_ms + HOUR_MS


@dataclass(frozen=True, slots=True)
class Listing:
    """The Parquet files of an hour folder, by name."""

    live: tuple[str, ...]
    """Files whose rows count; none if the hour has expired."""
    superseded: tuple[str, ...] = ()
    """Files whose rows are also in a merged file."""
    expired: bool = False


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files that a merged file replaces."""

    files: frozenset[str]
    """Names in the same folder, including those that the replaced files had replaced."""
    at_ms: int
    """When it replaced them."""

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Return the manifest in a file. Raises FileNotFoundError or TableDamaged."""
        try:
            values = json.loads(path.read_bytes())
            return cls(frozenset(map(str, values["files"])), int(values["at_ms"]))
        except (ValueError, TypeError, KeyError) as error:
            raise TableDamaged(path, "is not a manifest of a merged file") from error

    def to_json(self) -> bytes:
        return json.dumps({"at_ms": self.at_ms, "files": sorted(self.files)}, indent=1).encode()


def manifest_of(merged: Path) -> Path:
    """Return the path of a merged file's manifest."""
    return merged.with_name(f"{SUPERSEDED}{merged.stem.removeprefix(MERGED)}.json")


def hours(table: Path, start_ms: int | None = None, end_ms: int | None = None) -> list[Hour]:
    """Return the table's folders with an hour that overlaps [start, end), oldest first; other folders are ignored."""
    found = []
    for date in _folders(table, _DATE):
        for path in _folders(date, _HOUR):
            begins_ms = start_ms_of(path)
            if begins_ms is None or (end_ms is not None and begins_ms >= end_ms):
                continue
            if start_ms is None or begins_ms + HOUR_MS > start_ms:
                found.append(Hour(path, begins_ms))
    return sorted(found, key=lambda hour: hour.start_ms)


def listing(folder: Path) -> Listing:
    """Return the files of an hour folder now. Raises TableDamaged if that cannot be determined."""
    for _ in range(_ATTEMPTS):
        names = names_in(folder)
        if EXPIRED in names:
            return Listing((), expired=True)
        files = {name for name in names if name.endswith(".parquet") and not name.startswith((".", "_"))}
        merged = sorted(name for name in files if name.startswith(MERGED))
        try:
            replaced: set[str] = set()
            for name in merged:
                replaced |= Manifest.read(manifest_of(folder / name)).files
        except FileNotFoundError:
            continue  # both were removed after the names were read; else the next attempt fails in the same way
        return Listing(tuple(sorted(files - replaced)), tuple(sorted(files & replaced)))
    raise TableDamaged(folder, "a merged file has no manifest: which files it stands for is not known")


def names_in(folder: Path) -> set[str]:
    """Return the names in a folder now; none if it does not exist."""
    try:
        return {path.name for path in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def _folders(parent: Path, name: re.Pattern[str]) -> Iterator[Path]:
    return (parent / each for each in names_in(parent) if name.fullmatch(each))


def start_ms_of(path: PurePath) -> int | None:
    """Return the start of the hour of a folder; None if it is none."""
    try:
        moment = datetime.strptime(f"{path.parent.name[5:]} {path.name[5:]}", "%Y-%m-%d %H")
    except ValueError:
        return None
    return int(moment.replace(tzinfo=UTC).timestamp() * 1000)

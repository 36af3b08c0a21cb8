"""Keeps the tables small: merges an hour's many files into one, and removes hours past their retention. Files of
``samples`` that stay get a roll-up (:mod:`muster.actors.tables.rollups.files`).

This is safe beside readers, since files that no longer count stay for a grace period
(:mod:`muster.actors.tables.hours`). It is safe to kill at any point: the next run continues, or removes what had no
effect yet. There is one run at a time, which holds the lock file (flock) for as long as it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from muster.actors.tables.arrow import pa
from muster.actors.tables.footers import check
from muster.actors.tables.hours import (
    EXPIRED,
    MERGED,
    SUPERSEDED,
    Hour,
    Manifest,
    TableDamaged,
    hours,
    listing,
    manifest_of,
    names_in,
)
from muster.actors.tables.merging import concatenate, fits
from muster.actors.tables.rollups.files import folder_of_rollups, remove_rollups, write_rollup
from muster.actors.tables.schemas import TABLES
from muster.actors.tables.schemas.samples import SAMPLES

if TYPE_CHECKING:  # commands compact, too, and its import takes longer than theirs
    from muster.actors.config import MusterConfig

SMALL_BYTES = 64 << 20
"""Larger files are left as they are."""
MAX_BYTES = 256 << 20
"""Total size at which a group of files to merge into one is complete."""
_LOCK = ".compaction.lock"


@dataclass(frozen=True, slots=True)
class Policy:
    """The properties ``metrics.compaction.delay.ms``, ``metrics.compaction.grace.ms`` and ``metrics.retention.ms``."""

    delay_ms: int
    """From the end of an hour until its files are merged."""
    grace_ms: int
    """How long files that no longer count stay, for readers that began before."""
    retention_ms: int | None
    """From the end of an hour until its rows are removed; None: never."""

    @classmethod
    def of(cls, config: MusterConfig) -> Policy:
        retention_ms = config.metrics_retention_ms
        return cls(
            delay_ms=config.metrics_compaction_delay_ms,
            grace_ms=config.metrics_compaction_grace_ms,
            retention_ms=None if retention_ms < 0 else retention_ms,
        )


@dataclass(slots=True)
class Outcome:
    """Result of one run."""

    merged: int = 0
    """Files whose rows are now in merged files."""
    into: int = 0
    """Merged files that were created."""
    expired: int = 0
    """Hours whose rows no longer count."""
    removed: int = 0
    """Files that were removed after their grace period."""
    rolled_up: int = 0
    """Files of ``samples`` that got a roll-up (:mod:`muster.actors.tables.rollups.files`)."""
    problems: list[str] = field(default_factory=list)
    """Problems: files left as they are, and why."""


def compact(
    metrics: Path, policy: Policy, now_ms: Callable[[], int], *, stopped: Callable[[], bool] = lambda: False
) -> Outcome | None:
    """One run over all tables below ``<storage>/metrics``; None if another one is in progress.

    A file that cannot be read, and an hour that the disk refuses, is left as it is and reported as a problem.
    ``stopped`` is checked between hours.
    """
    outcome = Outcome()
    with _locked(metrics) as held:
        if not held:
            return None
        for table, hour in _all_hours(metrics):
            if stopped():
                break
            try:
                _Folder(hour, table, policy, now_ms, outcome).keep()
            except TableDamaged as damage:
                outcome.problems.append(str(damage))
            except (OSError, pa.ArrowException) as error:
                outcome.problems.append(f"{hour.path}: {error}")
    return outcome


def _all_hours(metrics: Path) -> Iterator[tuple[str, Hour]]:
    for table in TABLES:
        for hour in hours(metrics / table):
            yield table, hour


@dataclass(frozen=True, slots=True)
class _Folder:
    hour: Hour
    table: str
    policy: Policy
    now_ms: Callable[[], int]
    outcome: Outcome

    def keep(self) -> None:
        age_ms = self.now_ms() - self.hour.end_ms
        retention_ms = self.policy.retention_ms
        names = names_in(self.hour.path)
        if EXPIRED in names or (retention_ms is not None and age_ms >= retention_ms):
            self._expire()
            return
        self._remove_leftovers(names)
        is_due = age_ms >= self.policy.delay_ms
        if sum(name.endswith(".parquet") for name in names) > 1:  # in most hours, there is one
            self._remove_replaced(names)
            if is_due:
                for group in [*self._groups()]:
                    self._merge_sound(group)
        if self.table == SAMPLES:
            self._roll_up(is_due=is_due)

    def _roll_up(self, *, is_due: bool) -> None:
        """Remove roll-ups of files that are gone; if it is due, write those that are missing."""
        folder = folder_of_rollups(self.hour.path)
        held, names = names_in(folder), names_in(self.hour.path)
        for name in sorted(held - names):
            self._remove(folder / name)
        if not is_due or all(name in held for name in names if name.endswith(".parquet")):
            return
        for name in listing(self.hour.path).live:
            if name not in held:
                self._roll_up_file(self.hour.path / name)

    def _roll_up_file(self, path: Path) -> None:
        try:
            check(path, self.table)
            write_rollup(path, self.hour)
            self.outcome.rolled_up += 1
        except TableDamaged as damage:
            self.outcome.problems.append(str(damage))

    def _expire(self) -> None:
        """Expire the folder: mark it, so nothing in it counts; after the grace period, empty it; then remove it."""
        folder, marker = self.hour.path, self.hour.path / EXPIRED
        if not marker.exists():
            _write(marker, json.dumps({"at_ms": self.now_ms()}).encode())
            self.outcome.expired += 1
        if not self._is_over(_expired_at_ms(marker)):
            return
        remove_rollups(folder)
        for path in sorted(folder.iterdir()):
            if path != marker:
                self._remove(path)
        marker.unlink()
        folder.rmdir()
        with contextlib.suppress(OSError):
            folder.parent.rmdir()  # fails if the date has other hours

    def _remove_leftovers(self, names: Set[str]) -> None:
        """Remove what killed runs left: partial files, and manifests whose merged file was not made or is replaced."""
        for name in sorted(names):
            is_partial = name.startswith((f".{MERGED}", "._")) and name.endswith(".partial")
            is_manifest = name.startswith(SUPERSEDED)
            if is_partial or (is_manifest and _merged_of(name) not in names):
                self._remove(self.hour.path / name)

    def _remove_replaced(self, names: Set[str]) -> None:
        """Remove files that were replaced long enough ago."""
        for name in sorted(names):
            if name.startswith(SUPERSEDED) and _merged_of(name) in names:
                manifest = Manifest.read(self.hour.path / name)
                if self._is_over(manifest.at_ms):
                    for replaced in sorted(manifest.files & names):
                        self._remove(self.hour.path / replaced)

    def _groups(self) -> Iterator[list[Path]]:
        """Yield groups of files to merge. Merged files come last, so a damaged file is found before they are read."""
        group: list[Path] = []
        size = 0
        names = listing(self.hour.path).live
        for name in sorted(names, key=lambda name: (name.startswith(MERGED), name)):
            path = self.hour.path / name
            if not self._can_merge(path):
                continue
            group.append(path)
            size += path.stat().st_size
            if size >= MAX_BYTES:
                yield from [group] if len(group) > 1 else []
                group, size = [], 0
        if len(group) > 1:
            yield group

    def _can_merge(self, path: Path) -> bool:
        if path.stat().st_size >= SMALL_BYTES:
            return False
        try:
            return fits(path, self.table)
        except (TableDamaged, OSError, pa.ArrowException) as error:
            self.outcome.problems.append(str(error) if isinstance(error, TableDamaged) else f"{path}: {error}")
            return False

    def _merge_sound(self, sources: list[Path]) -> None:
        """Merge the files, except for those that turn out to be damaged."""
        while len(sources) > 1:
            try:
                self._merge(sources)
                return
            except TableDamaged as damage:
                if damage.path not in sources:
                    raise
                self.outcome.problems.append(str(damage))
                sources.remove(damage.path)

    def _merge(self, sources: Sequence[Path]) -> None:
        """Merge the files; the rows move from them to the merged file at the moment it gets its name."""
        replaced = {path.name for path in sources}
        for path in sources:
            if path.name.startswith(MERGED):
                replaced |= Manifest.read(manifest_of(path)).files
        target = self.hour.path / f"{MERGED}{uuid.uuid4().hex[:16]}.parquet"
        partial = target.with_name(f".{target.name}.partial")
        try:
            concatenate(sources, partial, TABLES[self.table].arrow)
        except (TableDamaged, OSError, pa.ArrowException):
            partial.unlink(missing_ok=True)
            raise
        _write(manifest_of(target), Manifest(frozenset(replaced), self.now_ms()).to_json())
        partial.replace(target)
        self.outcome.merged += len(sources)
        self.outcome.into += 1

    def _is_over(self, at_ms: int) -> bool:
        return at_ms + self.policy.grace_ms <= self.now_ms()

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            self.outcome.removed += 1


def _merged_of(manifest: str) -> str:
    return f"{MERGED}{manifest.removeprefix(SUPERSEDED).removesuffix('.json')}.parquet"


def _expired_at_ms(marker: Path) -> int:
    try:
        return int(json.loads(marker.read_bytes())["at_ms"])
    except (ValueError, TypeError, KeyError) as error:
        raise TableDamaged(marker, "does not say when its hour expired") from error


def _write(target: Path, data: bytes) -> None:
    """Write a file atomically."""
    partial = target.with_name(f".{target.name}.partial")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(target)


@contextlib.contextmanager
def _locked(metrics: Path) -> Iterator[bool]:
    metrics.mkdir(parents=True, exist_ok=True)
    with (metrics / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True

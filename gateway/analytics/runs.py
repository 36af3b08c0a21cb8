"""Runs of the jobs of ``muster spark`` and of ``muster report``, in ``analytics/`` of the storage directory.

Each has a folder: ``run.json``, and ``result.json`` or ``report.html`` once it has succeeded. The last ones are kept.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from muster.actors.runtime.files import write_atomically

JOBS = ("consumption", "lag", "rebalances", "attribution", "placement", "failover")
"""Jobs of :mod:`muster.spark.jobs`, which the gateway's package does not import."""
REPORT = "report"
"""Name of the run of all jobs that makes the page of ``muster report``."""
REPORT_CSP = "sandbox allow-downloads; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content-Security-Policy of that page, which has no scripts."""
KEPT = 50
_ID = re.compile(r"\d{13}-[a-z]+")
_LOST = "the process that ran it has ended, or its node was lost"


class Busy(RuntimeError):
    """Another run is in progress; there is one at a time."""


class NotStarted(RuntimeError):
    """Ray does not run it; the message is one line with the reason."""


class State(StrEnum):
    """State of a run."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that was requested."""

    id: str
    """``<started_ms>-<job>``."""
    job: str
    """One of :data:`JOBS`, or :data:`REPORT`."""
    by: str
    """Principal who requested it."""
    started_ms: int
    from_ms: int | None = None
    """Start of the time it is about; None: the first row."""
    to_ms: int | None = None
    groups: tuple[str, ...] = ()
    """None of them: all groups."""
    state: State = State.RUNNING
    ended_ms: int | None = None
    steps: tuple[str, ...] = ()
    """Lines of the process, oldest first: seconds since its start, and what it does."""
    error: str | None = None

    @classmethod
    def requested(
        cls, job: str, *, by: str, now_ms: int, from_ms: int | None, to_ms: int | None, groups: tuple[str, ...]
    ) -> Run:
        """Return a run that begins now."""
        return cls(
            id=f"{now_ms:013d}-{job}",
            job=job,
            by=by,
            started_ms=now_ms,
            from_ms=from_ms,
            to_ms=to_ms,
            groups=groups,
        )

    @property
    def result(self) -> str:
        """Name of the file with the result."""
        return "report.html" if self.job == REPORT else "result.json"

    def ended(self, state: State, now_ms: int, error: str | None = None) -> Run:
        """Return the run as it ended."""
        return replace(self, state=state, ended_ms=now_ms, error=error)

    def lost(self) -> Run:
        """Return a run of which nobody can say how it ended."""
        return replace(self, state=State.FAILED, error=_LOST)

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


class Runs:
    """The runs of a cluster, in files. All methods block, and raise OSError."""

    def __init__(self, storage: Path) -> None:
        self._folder = storage / "analytics"

    def add(self, run: Run) -> Path:
        """Keep a new run, and forget the oldest ones. Returns its folder."""
        folder = self._folder / run.id
        folder.mkdir(mode=0o700, parents=True)
        self.save(run)
        for old in sorted(self._folder.iterdir(), reverse=True)[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
        return folder

    def save(self, run: Run) -> None:
        """Write the current state of a run."""
        write_atomically(self._folder / run.id / "run.json", json.dumps(run.to_json()))

    def all(self) -> list[Run]:
        """Return the runs, newest first."""
        if not self._folder.is_dir():
            return []
        found = (self.find(folder.name) for folder in sorted(self._folder.iterdir(), reverse=True))
        return [run for run in found if run is not None]

    def find(self, run_id: str) -> Run | None:
        """Return a run; None if there is none of that id."""
        if not _ID.fullmatch(run_id):
            return None
        try:
            found = json.loads((self._folder / run_id / "run.json").read_text())
            lists = {name: tuple(found[name]) for name in ("groups", "steps")}
            return Run(**{**found, **lists, "state": State(found["state"])})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise OSError(f"{run_id}/run.json is damaged: {error}") from error

    def result(self, run: Run) -> str | None:
        """Return the text of the result; None without one."""
        try:
            return (self._folder / run.id / run.result).read_text()
        except FileNotFoundError:
            return None

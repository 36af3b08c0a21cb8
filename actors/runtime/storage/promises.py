"""Promises that ``storage.path`` needs, of a file system or of object storage, and the findings of trying them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum


class Promise(Enum):
    """The value is what depends on it."""

    @property
    def title(self) -> str:
        """Its name in tables and messages."""
        return self.name.lower()


class FilePromise(Promise):
    """Promise of a file system."""

    SYNC = "an acknowledged record survives a power failure"
    RENAME = "manifests and the cluster's state are read whole while they are replaced"
    CREATE = "one writer per log: a leader epoch is claimed once"
    REMOVE = "a writer that lost its claim notices; a segment that is being read stays readable"
    WRITE = "batches stand where their log says"
    LOCK = "one muster up per directory; rows of a live process are not taken over"
    MAPPING = "counters of samples survive a killed process"
    VISIBLE = "what one node has written, the next owner of a log on another node reads"
    CLAIM = "a writer on another node that was replaced acknowledges nothing"


class Broken(Exception):
    """A promise is not kept. The text says what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of trying one promise."""

    promise: Promise
    problem: str | None
    """Broken promise: what happened instead; None if it is kept."""
    detail: str | None = None
    """Note on a kept promise, or a measurement."""
    took_ms: float = 0.0
    host: str | None = None
    """The node where it was tried; None: this one."""


def tried(promise: Promise, trial: Callable[[], str | None]) -> Finding:
    """Run the trial, which returns a detail or raises Broken or OSError."""
    started = time.perf_counter_ns()
    problem = detail = None
    try:
        detail = trial()
    except Broken as broken:
        problem = str(broken)
    except OSError as error:
        problem = f"{error.strerror or error}"
    took_ms = (time.perf_counter_ns() - started) / 1_000_000
    return Finding(promise=promise, problem=problem, detail=detail, took_ms=took_ms)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Turn an OSError of the body into Broken with the system's message."""
    try:
        yield
    except OSError as error:
        raise Broken(f"{what} failed: {error.strerror or error}") from error

"""Status of a pool and of its workers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class PoolState(StrEnum):
    """States of a pool."""

    RUNNING = "running"
    FAILED = "failed"
    """A record could not be handled. No worker runs; ``stop`` removes what is left."""
    STOPPED = "stopped"
    """Nothing is left of it on Ray."""


class WorkerState(StrEnum):
    """States of a worker."""

    STARTING = "starting"
    """Ray starts its actor, or waits for resources; or its handler is being made."""
    RUNNING = "running"
    STOPPING = "stopping"
    """It finishes its batch, commits and leaves the group."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker. Numbers count from its start."""

    slot: int
    """The last part of its ``client.id``."""
    state: WorkerState
    pid: int | None = None
    """Process of its actor; None if the worker does not respond, as then the rest is unknown, too."""
    node_id: str = ""
    partitions: tuple[tuple[str, int], ...] = ()
    """Topics and partitions that it has."""
    records: int = 0
    """Handled, also as dead letters."""
    batches: int = 0
    failed_attempts: int = 0
    """Calls of the handler that raised an error."""
    dead_letters: int = 0
    refused_commits: int = 0
    """Commits that failed, as in a rebalance. They are repeated, or another member reads the batch again."""
    handles_for_s: float | None = None
    """Age of the batch that is handled; None if there is none."""
    last_error: str = ""
    """Last error of the handler or of the consumer; empty if there was none."""


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """A pool at one moment."""

    name: str
    group: str
    state: PoolState
    size: int = 0
    """Workers that run or are being started."""
    workers: tuple[WorkerStatus, ...] = ()
    """By slot; also those that stop."""
    lag: int | None = None
    """Unread records; None if that is not known now."""
    rate: float | None = None
    """Records per second that one worker reads; None until that was measured."""
    deaths: int = 0
    """Workers that Ray reported dead, since the supervisor was started."""
    evicted: int = 0
    """Their members that were removed from the group."""
    last_death: str = ""
    """How the last worker ended that nobody has stopped; empty if there was none."""
    error: str = ""
    """Why the pool has failed, or what keeps it from its work now; empty otherwise."""

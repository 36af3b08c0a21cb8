"""Common parts of the demo's consumers: arguments, the order to stop, and the lines that they write.

A line on stdout is one JSON object with ``type``: ``assigned`` (partitions; one for every completed rebalance),
``progress`` (total, next: the next offset by partition) twice a second, and ``done`` at the end, with everything
of :meth:`examples.demo.received.Received.to_json` and, as ``arrived``, of
:meth:`examples.demo.arrivals.Arrivals.to_json`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from examples.demo.arrivals import Arrivals
from examples.demo.dataset import ROWS, row_number
from examples.demo.received import Received
from muster.actors.runtime import terminal

COMMIT_INTERVAL_S = 1.0
POLL_S = 0.2
_PROGRESS_INTERVAL_S = 0.5
ALONE_S = 30
"""Limit for a consumer without its demo, by SIGALRM: Muster ends too, and a client may await its coordinator
forever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    bootstrap: str
    group: str
    topic: str


def options() -> Options:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "group", "topic"):
        parser.add_argument(f"--{name}", required=True)
    return Options(**vars(parser.parse_args()))


class Member:
    """One consumer of the demo: counts records, writes progress, and decides when to commit and when to stop."""

    def __init__(self) -> None:
        self.stopping = False
        self._received = Received(ROWS)
        self._arrivals = Arrivals()
        self._in_commits = 0
        """Records received before the last commit."""
        self._next_commit = time.monotonic() + COMMIT_INTERVAL_S
        self._next_progress = 0.0
        self._demo = os.getppid()
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # handled by the runner

    def _stop(self, *_: object) -> None:
        self.stopping = True
        if os.getppid() != self._demo:
            signal.alarm(ALONE_S)

    def assigned(self, partitions: Iterable[int]) -> None:
        self._arrivals.assigned()
        write({"type": "assigned", "partitions": sorted(partitions)})

    def got(self, partition: int, offset: int, value: bytes, timestamp_ms: int) -> None:
        """Count a record; its timestamp is CreateTime, from a producer on this machine."""
        is_new = offset >= self._received.next_offset.get(partition, 0)
        self._received.add(partition, offset, row_number(value))
        if is_new:
            self._arrivals.add(partition, timestamp_ms / 1000, time.time())

    def commit_is_due(self) -> bool:
        """Return True once a second; also write the progress, so call it on every iteration."""
        now = time.monotonic()
        if now >= self._next_progress:
            self._next_progress = now + _PROGRESS_INTERVAL_S
            write({"type": "progress", "total": self._received.total, "next": self._received.next_offset})
        if now < self._next_commit:
            return False
        self._next_commit = now + COMMIT_INTERVAL_S
        if self._received.total > self._in_commits:
            self._in_commits = self._received.total
            self._arrivals.commit_requested(time.time())
        return True

    def committed(self) -> None:
        """Note that a commit succeeded."""
        self._arrivals.committed(time.time())

    def done(self) -> None:
        write({"type": "done", **self._received.to_json(), "arrived": self._arrivals.to_json()})


def write(line: dict[str, Any]) -> None:
    terminal.json_text(json.dumps(line, separators=(",", ":")))

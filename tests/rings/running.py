"""Runs rings, at most two at a time, and returns their rows of the ledger."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path

from tests import stopwatch
from tests.rings.ledger import PASSED, Row
from tests.rings.ring import ROOT, Ring
from tests.stopwatch import Duration

DURATIONS = ROOT / "build" / "durations"
LOGS = ROOT / "build" / "rings"
END_S = 60
"""Time for a ring that is interrupted."""


class Runner:
    """Runs rings on a commit. ``end`` ends those that run, with all their processes."""

    def __init__(self, commit: str, seed: int) -> None:
        self._commit = commit
        self._seed = seed
        self._processes: set[subprocess.Popen[bytes]] = set()

    def run(self, ring: Ring, log: Path | None = None) -> Row:
        """Run a ring to its end; its output goes to ``log``, or to this process's own."""
        durations = DURATIONS / ring.name
        shutil.rmtree(durations, ignore_errors=True)
        began_s = time.monotonic()
        status = self._to_its_end(ring, durations, log)
        seconds = time.monotonic() - began_s
        tests = [row for row in stopwatch.read(durations) if row.kind == "test"]
        failed = sum(row.outcome == "failed" for row in tests)
        outcome = PASSED if status == 0 else f"{failed} failed" if failed else f"exit status {status}"
        stopwatch.write([Duration("stage", ring.name, outcome, round(seconds, 1))], durations / "stage.csv")
        return Row(
            ring=ring.name,
            commit=self._commit,
            date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
            seconds=round(seconds),
            tests=len(tests),
            result=outcome,
        )

    def _to_its_end(self, ring: Ring, durations: Path, log: Path | None) -> int:
        environment = {**os.environ, stopwatch.FOLDER_VARIABLE: str(durations), "MUSTER_SEED": str(self._seed)}
        command = ring.arguments(self._seed)
        if log is None:
            return self._wait(subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True))
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as out:
            popen = subprocess.Popen(
                command, cwd=ROOT, env=environment, start_new_session=True, stdout=out, stderr=subprocess.STDOUT
            )
            return self._wait(popen)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        self._processes.add(process)
        status = process.wait()
        self._processes.discard(process)
        return status

    def end(self) -> None:
        """Interrupt what runs, so that tests end what they have started, and kill what does not end."""
        for process in self._processes:
            os.killpg(process.pid, signal.SIGINT)
        for process in self._processes:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def run_all(runner: Runner, rings: Sequence[Ring], ended: Callable[[Row, Path], None]) -> None:
    """Run the rings in order, two at a time where both share; ``ended`` is called with each row and log."""
    queue = list(rings)
    running: dict[Future[Row], Ring] = {}
    with ThreadPoolExecutor(2) as pool:
        while queue or running:
            while queue and (ring := _next(queue, [*running.values()])) is not None:
                queue.remove(ring)
                running[pool.submit(runner.run, ring, LOGS / f"{ring.name}.log")] = ring
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                ended(future.result(), LOGS / f"{running.pop(future).name}.log")


def _next(queue: Sequence[Ring], running: Sequence[Ring]) -> Ring | None:
    """The ring to start beside those that run; None to wait."""
    if not running:
        return queue[0]
    if len(running) > 1 or not running[0].shares:
        return None
    return next((ring for ring in queue if ring.shares), None)

"""Runs rings, at most two at a time, and returns their rows of the ledger."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path

from tests import stopwatch
from tests.rings.ledger import DIRTY, PASSED, Row
from tests.rings.ring import ROOT, Ring
from tests.stopwatch import Duration

DURATIONS = ROOT / "build" / "durations"
LOGS = ROOT / "build" / "rings"
LIMIT_S = 3600.0
"""A ring that takes longer is ended, and has failed."""
END_S = 180
"""Time for a ring that is interrupted: more than any fixture takes to stop what it started."""


class Runner:
    """Runs rings. :meth:`end` ends those that run, with the processes of their groups."""

    def __init__(self, commit: Callable[[], str], seed: int, *, until_s: float | None = None) -> None:
        """``commit`` gives the present commit. ``until_s``: the time of ``time.time`` by which every ring has ended."""
        self._commit = commit
        self._seed = seed
        self._until_s = until_s
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self.is_ending = False

    def run(self, ring: Ring, log: Path | None = None) -> Row:
        """Run a ring to its end; its output goes to ``log``, or to this process's own."""
        commit = self._commit()
        durations = DURATIONS / ring.name
        shutil.rmtree(durations, ignore_errors=True)
        began_s = time.monotonic()
        try:
            problem = self._to_its_end(ring, durations, log)
            tests = [row for row in stopwatch.read(durations) if row.kind == "test"]
        except (OSError, ValueError) as error:
            problem, tests = f"{type(error).__name__}: {error}", []
        seconds = time.monotonic() - began_s
        failed = sum(row.outcome == "failed" for row in tests)
        result = PASSED if problem is None else f"{failed} failed" if failed else problem
        stopwatch.write([Duration("stage", ring.name, result, round(seconds, 1))], durations / "stage.csv")
        return Row(
            ring=ring.name,
            commit=commit if commit.endswith(DIRTY) or commit == self._commit() else commit + DIRTY,
            date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
            seconds=round(seconds),
            tests=len(tests),
            result=result,
        )

    def _to_its_end(self, ring: Ring, durations: Path, log: Path | None) -> str | None:
        """Wait for the ring's end; return what went wrong, if anything."""
        limit_s = LIMIT_S if self._until_s is None else min(LIMIT_S, max(0.0, self._until_s - time.time()))
        with self._started(ring, durations, log) as process:
            try:
                status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                _end([process])
                return f"not ended within {limit_s:.0f} s"
        return f"exit status {status}" if status else None

    @contextlib.contextmanager
    def _started(self, ring: Ring, durations: Path, log: Path | None) -> Iterator[subprocess.Popen[bytes]]:
        environment = {**os.environ, stopwatch.FOLDER_VARIABLE: str(durations), "MUSTER_SEED": str(self._seed)}
        with contextlib.ExitStack() as stack:
            out = None
            if log is not None:
                log.parent.mkdir(parents=True, exist_ok=True)
                out = stack.enter_context(log.open("wb"))
            with self._lock:
                if self.is_ending:
                    raise KeyboardInterrupt
                process = subprocess.Popen(
                    ring.arguments(self._seed),
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=None if out is None else subprocess.STDOUT,
                    start_new_session=True,
                )
                self._processes.add(process)
            yield process
            with self._lock:
                self._processes.discard(process)

    def end(self) -> None:
        """Interrupt what runs, so that tests end what they have started, and kill what does not end."""
        with self._lock:
            self.is_ending = True
            running = list(self._processes)
        _end(running)

    def kill(self) -> None:
        """Kill what runs, at once."""
        for process in list(self._processes):
            _signal(process, signal.SIGKILL)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        _signal(process, signal.SIGINT)
    for process in processes:
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To the process and all others of its session that have not left its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def run_all(runner: Runner, rings: Sequence[Ring], ended: Callable[[Row, Path], None]) -> None:
    """Run the rings in order, two at a time where both share; ``ended`` is called with each row and log."""
    queue = list(rings)
    running: dict[Future[Row], Ring] = {}
    with ThreadPoolExecutor(2) as pool:
        try:
            while queue or running:
                while queue and (ring := _next(queue, [*running.values()])) is not None:
                    queue.remove(ring)
                    running[pool.submit(runner.run, ring, LOGS / f"{ring.name}.log")] = ring
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    ended(future.result(), LOGS / f"{running.pop(future).name}.log")
        except BaseException:
            runner.end()  # the pool waits for them
            raise


def _next(queue: Sequence[Ring], running: Sequence[Ring]) -> Ring | None:
    """Return the ring to start beside those that run; None to wait."""
    if not running:
        return queue[0]
    if len(running) > 1 or not running[0].shares:
        return None
    return next((ring for ring in queue if ring.shares), None)

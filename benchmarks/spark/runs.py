"""Runs :mod:`benchmarks.spark.child` on tables and returns the cost by job: seconds and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from benchmarks.cluster import Cluster
from benchmarks.spark.child import PRIORITY
from muster.spark.jvms import mark
from pytest_muster.bound import bound

Driver: TypeAlias = "subprocess.Popen[str]"

_SAMPLE_S = 0.5
_END_S = 60
_LAST_WORDS = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of one job in one session."""

    seconds: float
    peak_bytes: int
    """Peak of the driver's processes and the executors together (proportional set size)."""
    answered_rows: int
    read_rows: int
    """Rows of Parquet that Spark's scans read."""
    read_bytes: int
    """Bytes of Parquet and of cached frames: Spark's input."""
    shuffle_bytes: int
    spilled_bytes: int
    executor_ms: int
    """Sum of the times of its tasks."""
    gc_ms: int


@dataclass(slots=True)
class Run:
    """Results of one driver."""

    start_s: float = 0.0
    """Until the session had its executors."""
    close_s: float = 0.0
    jobs: dict[str, Cost] = field(default_factory=dict)


class RunFailed(RuntimeError):
    """The driver ended early; the message is the end of its output."""


class OutOfTime(RuntimeError):
    """The driver was ended because it exceeded its time limit."""


def request_of(
    storage: Path, jobs: tuple[str, ...], cluster: Cluster | None, *, cores: int, memory_bytes: int, end_ms: int
) -> str:
    """Return a request for local Spark, or for one executor on the cluster's Ray."""
    fields: dict[str, Any] = {
        "storage": str(storage.absolute()),
        "jobs": jobs,
        "options": {"now": datetime.fromtimestamp(end_ms / 1000, UTC).isoformat(), "price_per_gib": 0.05},
        "executor_cores": cores,
        "executor_memory_bytes": memory_bytes,
    }
    if cluster is not None:
        state = json.loads((cluster.storage / "run" / "cluster.json").read_text())
        fields |= {"ray_address": state["ray_address"], "ray_token_path": state["ray_token_path"]}
    return json.dumps(fields)


@contextmanager
def driver(request: str, log: Path, *, low_priority: bool = True) -> Iterator[Driver]:
    """Run a driver; on exit, all its processes are ended.

    Its stderr goes to ``log``. It spills to ``spill`` in the same directory; local Spark spills in its driver.
    """
    spill = log.parent / "spill"
    spill.mkdir(exist_ok=True)
    with log.open("wb") as errors:
        process = subprocess.Popen(
            bound([sys.executable, "-m", "benchmarks.spark.child", request]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {PRIORITY: "low" if low_priority else "normal", "SPARK_LOCAL_DIRS": str(spill)},
        )
    with process:
        try:
            yield process
        finally:
            _end(process)


def _end(process: Driver) -> None:
    """Send SIGTERM, and SIGKILL by pid to the processes that remain after a minute."""
    if process.poll() is not None:
        return
    family = []
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
    for child in psutil.wait_procs(family, timeout=5)[1]:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def run(request: str, log: Path, *, within_s: float | None = None, low_priority: bool = True) -> Run:
    """Run the driver to its end. RunFailed, OutOfTime."""
    with (
        driver(request, log, low_priority=low_priority) as process,
        _Memory(process.pid) as memory,
        _Deadline(process, within_s) as deadline,
    ):
        result = _listen(process, memory)
        code = process.wait()
    if deadline.passed:
        raise OutOfTime(f"it was not done after {within_s:.0f} s")
    if code != 0:
        raise RunFailed(last_words(log))
    return result


def last_words(log: Path) -> str:
    """Return the end of a driver's log."""
    return log.read_text(errors="replace")[-_LAST_WORDS:]


def _listen(process: Driver, memory: _Memory) -> Run:
    result = Run()
    for said in heard(process):
        match said:
            case {"what": "session", "seconds": seconds}:
                result.start_s = seconds
            case {"what": "begins"}:
                memory.begin()
            case {"what": "ended", "job": job, **cost}:
                result.jobs[job] = Cost(peak_bytes=memory.peak_bytes, **cost)
            case {"what": "closed", "seconds": seconds}:
                result.close_s = seconds
    return result


def heard(process: Driver) -> Iterator[dict[str, Any]]:
    """Yield the driver's messages, until it ends."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):  # Java libraries may write other lines there
            yield json.loads(line)


class _Deadline:
    """Ends the driver at its deadline."""

    def __init__(self, process: Driver, within_s: float | None) -> None:
        self.passed = False
        self._process = process
        self._timer = None if within_s is None else threading.Timer(max(0.0, within_s), self._pass)

    def _pass(self) -> None:
        self.passed = True
        _end(self._process)

    def __enter__(self) -> _Deadline:
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()


class _Memory:
    """Samples the driver's processes, and the marked JVMs of the machine, twice a second."""

    def __init__(self, pid: int) -> None:
        self._driver = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._marked: list[psutil.Process] = []
        self._peak_bytes = 0

    @property
    def peak_bytes(self) -> int:
        """Peak since :meth:`begin`, including now."""
        self._look()
        return self._peak_bytes

    def begin(self) -> None:
        self._marked = _marked()
        self._peak_bytes = 0

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self._look()

    def _look(self) -> None:
        with suppress(psutil.Error):
            held = {self._driver, *self._driver.children(recursive=True), *self._marked}
            self._peak_bytes = max(self._peak_bytes, sum(_pss_bytes(process.pid) for process in held))

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def _pss_bytes(pid: int) -> int:
    """Return the kernel's own sum, at a fraction of the cost of reading each mapping; 0 for a process that has
    ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def _marked() -> list[psutil.Process]:
    marked = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(word.startswith(mark("")) for word in process.cmdline()):
                marked.append(process)
    return marked


def await_no_executors() -> None:
    """Wait until the last run's executors have ended; the end of RayDP does not wait for them."""
    deadline = time.monotonic() + _END_S
    while _marked() and time.monotonic() < deadline:
        time.sleep(_SAMPLE_S)

"""Starts :mod:`bench.spark_child` on tables and says what it cost: seconds and memory, by job."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from bench.cluster import Cluster
from spark.priority import mark

Driver: TypeAlias = "subprocess.Popen[str]"

_SAMPLE_S = 0.5


@dataclass(slots=True)
class Run:
    """Of one driver. Peaks are the resident memory of the driver's processes and of the executors, in bytes."""

    start_s: float = 0.0
    """Until there was a session."""
    close_s: float = 0.0
    job_s: dict[str, float] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)


class RunFailed(RuntimeError):
    """The driver ended before it was done; the message is what it said last."""


def request_of(
    storage: Path, jobs: tuple[str, ...], cluster: Cluster | None, *, cores: int, memory_bytes: int, end_ms: int
) -> str:
    """For local Spark, or for one executor on the cluster's Ray."""
    fields: dict[str, Any] = {
        "storage": str(storage),
        "jobs": jobs,
        "options": {"now": datetime.fromtimestamp(end_ms / 1000, UTC).isoformat(), "price_per_gib": 0.05},
        "executor_cores": cores,
        "executor_memory_bytes": memory_bytes,
    }
    if cluster is not None:
        state = json.loads((cluster.storage / "run" / "cluster.json").read_text())
        fields |= {"ray_address": state["ray_address"], "ray_token_path": state["ray_token_path"]}
    return json.dumps(fields)


def start(request: str, log: Path) -> Driver:
    """The driver, running; its stderr goes to ``log``."""
    with log.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "bench.spark_child", request],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


def run(request: str, log: Path) -> Run:
    """Run the driver to its end. RunFailed."""
    driver = start(request, log)
    try:
        with driver, _Memory(driver.pid) as memory:
            return _listen(driver, memory, log)
    finally:
        if driver.poll() is None:
            driver.terminate()
            driver.wait()


def _listen(driver: Driver, memory: _Memory, log: Path) -> Run:
    result = Run()
    assert driver.stdout is not None
    for line in driver.stdout:
        match json.loads(line):
            case {"what": "session", "seconds": seconds}:
                result.start_s = seconds
            case {"what": "begins"}:
                memory.begin()
            case {"what": "ended", "job": job, "seconds": seconds, "rows": rows}:
                result.job_s[job], result.rows[job] = seconds, rows
                result.peak_bytes[job] = memory.peak_bytes
            case {"what": "closed", "seconds": seconds}:
                result.close_s = seconds
    if driver.wait() != 0:
        raise RunFailed(log.read_text(errors="replace")[-1500:])
    return result


class _Memory:
    """Looks at the driver's processes, and at the marked JVMs of the machine, twice a second."""

    def __init__(self, pid: int) -> None:
        self._driver = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_bytes = 0

    def begin(self) -> None:
        self.peak_bytes = 0

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, self._now())

    def _now(self) -> int:
        held = 0
        with suppress(psutil.Error):
            for process in {self._driver, *self._driver.children(recursive=True), *_marked()}:
                with suppress(psutil.Error):
                    held += process.memory_info().rss
        return held

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def _marked() -> list[psutil.Process]:
    marked = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(word.startswith(mark("")) for word in process.cmdline()):
                marked.append(process)
    return marked

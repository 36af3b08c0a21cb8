"""Sessions on a real Ray: their executors yield to others, and none stays when the driver is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from spark.priority import NICENESS

START_S = 120
END_S = 60


class Cluster:
    """Ray in a process of its own."""

    def __init__(self, storage: Path) -> None:
        self._head = _python("tests.spark.ray_head", str(storage))
        told = json.loads(_line(self._head))
        self.address, self.token_path = told["address"], Path(told["token_path"])

    def state(self) -> dict[str, Any]:
        assert self._head.stdin
        self._head.stdin.write("\n")
        self._head.stdin.flush()
        told: dict[str, Any] = json.loads(_line(self._head))
        return told

    def java(self) -> list[psutil.Process]:
        """JVMs of Spark on it: executors and application masters."""
        below = psutil.Process(self._head.pid).children(recursive=True)
        return [process for process in below if any("-Dmuster.spark" in word for word in _arguments(process))]

    def close(self) -> None:
        assert self._head.stdin
        self._head.stdin.close()
        self._head.wait(END_S)


def _python(module: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline()
    assert line, f"it ended with {process.poll()}"
    return line


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("ray"))
    yield cluster
    cluster.close()


@pytest.mark.timeout(2 * START_S + END_S)
def test_a_killed_driver_leaves_no_executor_behind(cluster: Cluster) -> None:
    free = cluster.state()
    assert free["actors"] == []
    driver = _python("tests.spark.driver", cluster.address, str(cluster.token_path))
    try:
        assert _line(driver).strip() == "499500"
        running = cluster.java()
        assert len(running) == 3  # the application master, RayDP's way to reach it, and one executor
        assert {os.getpriority(os.PRIO_PROCESS, thread.id) for jvm in running for thread in jvm.threads()} == {NICENESS}
        busy = cluster.state()
        assert len(busy["actors"]) >= 2
        assert busy["cpus"] < free["cpus"]
    finally:
        driver.kill()
        driver.wait()
    gone, alive = psutil.wait_procs(running, timeout=END_S)
    assert (len(gone), alive) == (3, [])
    while (left := cluster.state()) != free:  # each question is answered by Ray's control store: no need to sleep
        assert left["actors"] == [] or psutil.Process().is_running()


def test_a_cluster_that_is_too_small_says_so_at_once(cluster: Cluster) -> None:
    driver = _python("tests.spark.driver", cluster.address, str(cluster.token_path), "99")
    why = "the Ray cluster has not enough free for Spark: 99 x 1 CPU and 512 MiB wanted, by node there are free: "
    assert _line(driver).startswith(why)
    assert driver.wait(END_S) == 1
    assert cluster.java() == []

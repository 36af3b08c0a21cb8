"""``muster spark`` on a real Ray: its executors yield to others, and none outlives the driver."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs import JOBS
from muster.spark.jobs.job import Options
from muster.spark.priority import NICENESS
from muster.spark.render.showing import to_json
from muster.spark.result import run_job
from muster.spark.tables import read_table
from tests.spark.arrivals import write_commits, write_registrations, write_samples

pytestmark = pytest.mark.ring(name="spark-apart")

START_S = 120
END_S = 60


class Cluster:
    """Ray in a process of its own."""

    def __init__(self, storage: Path) -> None:
        self.temp_dir = storage / "temp"
        """Folder for temporary files of its processes and of the drivers."""
        self.temp_dir.mkdir()
        self.environment = {
            **os.environ,
            "TMPDIR": str(self.temp_dir),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={self.temp_dir}",
        }
        self._head = _python("tests.spark.ray_head", str(storage), env=self.environment)
        ready = json.loads(_line(self._head))
        self.address, self.token_path = ready["address"], Path(ready["token_path"])
        self.spill_dir = Path(ready["temp_dir"]) / "tmp"

    def state(self) -> dict[str, Any]:
        assert self._head.stdin
        self._head.stdin.write("\n")
        self._head.stdin.flush()
        reported: dict[str, Any] = json.loads(_line(self._head))
        return reported

    def java(self) -> list[psutil.Process]:
        """JVMs of Spark on it: executors and application masters."""
        below = psutil.Process(self._head.pid).children(recursive=True)
        found = {process.pid: process for process in below if any("-Dmuster.spark" in of for of in _arguments(process))}
        return [process for process in found.values() if _parent_of(process) not in found]  # a JVM forks to run chmod

    def close(self) -> None:
        assert self._head.stdin
        self._head.stdin.close()
        self._head.wait(END_S)


def _python(module: str, *arguments: str, env: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=env,
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline()
    assert line, f"it ended with {process.poll()}"
    return line


def _parent_of(process: psutil.Process) -> int | None:
    try:
        return int(process.ppid())
    except psutil.Error:
        return None


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("ray"))
    yield cluster
    cluster.close()


def driver(cluster: Cluster, storage: Path, job: str, stderr: int, **wishes: Any) -> subprocess.Popen[str]:
    """``muster spark JOB`` on the cluster."""
    where = {"ray_address": cluster.address, "ray_token_path": str(cluster.token_path)}
    request = json.dumps({"storage": str(storage), "jobs": [job], "options": {}, **where, **wishes})
    return subprocess.Popen(
        [sys.executable, "-m", "muster.spark.command", request],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**cluster.environment, "TERM": "xterm"},
    )


class Terminal:
    """A wide terminal, and what a process writes to it."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        termios.tcsetwinsize(self.theirs, (50, 500))
        self._written = bytearray()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # EIO: the last of them has ended
            while some := os.read(self._ours, 4096):
                self._written += some

    def written(self) -> str:
        """All output except colours and cursor moves; after the process has ended."""
        os.close(self.theirs)
        self._reader.join()
        os.close(self._ours)
        return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", self._written.decode())


def arrive(storage: Path, number: int) -> None:
    chance = random.Random(number)
    write_samples(storage, f"gateway-0-run-{number:08d}", chance, hour=number)
    write_commits(storage, f"offsets-7-run-{number:08d}", chance, hour=number)


def wait_for(folder: Path, name: str, process: subprocess.Popen[str]) -> None:
    """Until the folder has a file that matches the glob."""
    tick = threading.Event()
    while not list(folder.glob(name)):
        assert process.poll() is None
        tick.wait(0.05)


@pytest.mark.timeout(2 * START_S + END_S)
def test_a_killed_stream_leaves_no_executor_behind_and_goes_on(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    free = cluster.state()
    assert free["actors"] == []
    storage, out = tmp_path / "storage", tmp_path / "stream"
    write_registrations(storage)
    arrive(storage, 0)
    killed = driver(cluster, storage, "attribution", subprocess.DEVNULL, stream=True, out=str(out))
    try:
        wait_for(out / SAMPLES, "batch-*", killed)
        running = cluster.java()
        assert len(running) == 3  # the application master, RayDP's way to reach it, and one executor
        assert {os.getpriority(os.PRIO_PROCESS, thread.id) for jvm in running for thread in jvm.threads()} == {NICENESS}
        busy = cluster.state()
        assert len(busy["actors"]) >= 2
        assert busy["cpus"] < free["cpus"]
        arrive(storage, 1)
    finally:
        killed.kill()
        killed.wait()
    gone, alive = psutil.wait_procs(running, timeout=END_S)
    assert (len(gone), alive) == (3, [])
    while cluster.state() != free:  # Ray's control store answers each query: no need to sleep
        pass
    arrive(storage, 2)
    terminal = Terminal()
    wishes = {"stream": True, "once": True, "out": str(out), "format": "json"}
    follower = driver(cluster, storage, "attribution", terminal.theirs, **wishes)
    output, _ = follower.communicate()
    assert follower.returncode == 0
    seen = terminal.written()
    assert f"attribution: streaming the current rows to {out}" in seen
    assert re.search(r"\d+/\d+ tasks", seen)
    by_batch = to_json([run_job(JOBS["attribution"], spark, storage, Options())], Options())
    assert json.loads(output)["jobs"] == json.loads(by_batch)["jobs"]


@pytest.mark.timeout(START_S + END_S)
def test_parquet_is_written_by_executors(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    write_samples(tmp_path, "gateway-0-run-00000001", random.Random(1))
    out = tmp_path / "answer"
    done = driver(cluster, tmp_path, "consumption", subprocess.PIPE, format="parquet", out=str(out))
    assert done.communicate()[0] == ""
    assert done.returncode == 0
    expected = JOBS["consumption"].sections({SAMPLES: read_table(spark, tmp_path, SAMPLES)}, Options())
    assert {path.name for path in out.iterdir()} == {section.name for section in expected}
    groups = next(section.frame for section in expected if section.name == "groups")
    assert spark.read.parquet(str(out / "groups")).collect() == groups.collect()
    while cluster.state()["actors"]:  # the executors end after their driver
        pass


@pytest.mark.timeout(START_S + END_S)
def test_no_job_leaves_temporary_files(cluster: Cluster, tmp_path: Path) -> None:
    """Ray kills the JVMs, which then cannot remove the libraries that they unpacked."""

    def names() -> set[Path]:
        return {*cluster.temp_dir.iterdir(), *cluster.spill_dir.iterdir()}

    before = names()
    write_samples(tmp_path, "gateway-0-run-00000001", random.Random(1))
    done = driver(cluster, tmp_path, "consumption", subprocess.DEVNULL)
    wait_for(cluster.temp_dir, "muster-*-spark", done)
    assert done.communicate()[0] != ""
    assert done.returncode == 0
    assert [name for name in names() - before if not name.name.startswith("spark-")] == []
    while names() != before:  # the driver's own JVM ends after it, in order
        pass


def test_a_cluster_that_is_too_small_says_so_at_once(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    refused = driver(cluster, tmp_path, "lag", subprocess.PIPE, executors=99)
    line = refused.communicate()[1].splitlines()[-1]
    why = (
        "muster: the Ray cluster has not enough free for Spark: 99 x 1 CPU and 512 MiB wanted, by node there are free: "
    )
    assert line.startswith(why)
    assert refused.returncode == 1
    assert cluster.java() == []

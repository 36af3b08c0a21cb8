"""Spark Structured Streaming with Kafka as its source and its sink, on Muster's own Ray, whichever server it reads.

Its driver is killed; another one continues from the checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest

from muster.gateway.cli.storage.directory import read_state
from tests.conformance.artifacts import HERE, spark_source
from tests.conformance.programs.program import Outcome, Program
from tests.conformance.programs.records import write
from tests.conformance.programs.words import FIRST, LINES, counted, history, latest
from tests.conformance.topics import create_topic
from tests.muster_process import Muster, eventually

pytestmark = pytest.mark.timeout(600)

PARTITIONS = 2
DONE_S = 180


def executors(muster: Muster) -> list[psutil.Process]:
    """Spark's JVMs on Muster's Ray."""
    assert muster.process is not None
    below = psutil.Process(muster.process.pid).children(recursive=True)
    return [process for process in below if any("-Dmuster.spark" in word for word in _arguments(process))]


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def test_a_driver_is_killed(
    bootstrap: str, muster: Muster, fresh: Callable[[str], str], tmp_path: Path, outcome: Outcome
) -> None:
    name = fresh("spark")
    source, output = f"{name}-input", f"{name}-output"
    for topic in (source, output):
        create_topic(bootstrap, topic, PARTITIONS)
    write(bootstrap, source, LINES[:FIRST], partitions=PARTITIONS)
    jars = ",".join(map(str, sorted(spark_source().iterdir())))
    (tmp_path / "spark-defaults.conf").write_text(f"spark.jars {jars}\n")
    state = read_state(muster.storage)
    assert state is not None
    arguments = [state.ray_address, str(state.ray_token_path), bootstrap, source, output, str(tmp_path / "checkpoint")]
    command = [sys.executable, str(HERE / "spark" / "spark_words.py"), *arguments]

    def driver(name: str) -> Program:
        return Program(name, command, tmp_path, environment={"SPARK_CONF_DIR": str(tmp_path)})

    def await_counts(lines: list[str]) -> None:
        """Wait until the output has, for each word, its number in those lines last."""
        counts = lambda: latest(history(bootstrap, output, int))  # noqa: E731
        eventually(counts, counted(lines).__eq__, f"{len(lines)} lines are counted", DONE_S)

    with driver("first") as first:
        await_counts(LINES[:FIRST])
        first.kill()
    write(bootstrap, source, LINES[FIRST:], partitions=PARTITIONS)
    with driver("second") as second:
        await_counts(LINES)
        assert second.stop() == 0
    eventually(lambda: executors(muster), lambda left: not left, "the executors ended")
    outcome(
        f"Spark {version('pyspark')}, Structured Streaming on Muster's Ray: driver killed, another continued",
        f"{len(LINES)} lines, {sum(counted(LINES).values())} words, the last counts are right",
    )

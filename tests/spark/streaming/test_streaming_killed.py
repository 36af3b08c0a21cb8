"""A driver is killed with its JVM while files arrive: with what its successor adds, each row counts once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.spark.jobs import JOBS
from muster.spark.jobs.job import Options
from muster.spark.streaming.stream import default_output, run_stream, stream_sections
from muster.spark.tables import read_table
from tests.spark.arrivals import write_commits, write_registrations, write_samples

pytestmark = pytest.mark.ring(name="spark-apart")

OPTIONS = Options(top=100)
DEADLINE_S = 120


def run_until(point: str, storage: Path) -> None:
    """Run a driver in its own process group, up to that point."""
    command = [sys.executable, "-m", "tests.spark.streaming.streaming_driver", str(storage), "attribution", point]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        assert process.wait(DEADLINE_S) == -signal.SIGKILL
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def arrive(storage: Path, number: int, chance: random.Random) -> None:
    write_samples(storage, f"gateway-0-run-{number:08d}", chance, hour=number % 3)
    write_commits(storage, f"offsets-7-run-{number:08d}", chance, hour=number % 3)


@pytest.mark.timeout(3 * DEADLINE_S + 60)
def test_killed_wherever_a_batch_could_be_lost_or_counted_twice(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(2)
    out = default_output(tmp_path, "attribution")
    write_registrations(tmp_path)
    for number, point in enumerate(("written", "renamed", "noting")):
        arrive(tmp_path, number, chance)
        run_until(point, tmp_path)
        whole, hidden = list(out.glob("*/batch-*")), list(out.glob("*/.batch-*"))
        match point:
            case "written":
                assert (whole, bool(hidden)) == ([], True)
            case "renamed":
                assert whole
                assert list(out.glob("_checkpoint/*/commits/[0-9]*")) == []
    arrive(tmp_path, 3, chance)
    run_stream(spark, tmp_path, "attribution", once=True)
    by_batch = {name: read_table(spark, tmp_path, name) for name in JOBS["attribution"].tables}
    streamed = {each.name: each for each in stream_sections(spark, tmp_path, "attribution", OPTIONS)}
    for section in JOBS["attribution"].sections(by_batch, OPTIONS):
        assert streamed[section.name].frame.collect() == section.frame.collect(), section.name

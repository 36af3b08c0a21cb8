"""A driver that is killed with its JVM while files arrive: what the next one adds makes each row count once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import Row, SparkSession

from actors.tables.schemas.samples import SAMPLES
from spark.jobs import JOBS
from spark.jobs.job import Options, Section
from spark.streaming.stream import default_output, run_stream, stream_sections
from spark.tables import read_table
from tests.spark.arrivals import write_samples

OPTIONS = Options()
DEADLINE_S = 120
STEP_S = 0.05


@contextmanager
def driver(storage: Path) -> Iterator[Callable[[], None]]:
    """Runs until the function that it gives is called or the test ends: SIGKILL for Python and the JVM alike."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.streaming_driver", str(storage)], start_new_session=True
    )

    def kill() -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    try:
        yield kill
    finally:
        kill()


def wait_for(folder: Path, name: str) -> Path:
    """Until something of that name (a glob) is in the folder."""
    tick = threading.Event()
    for _ in range(int(DEADLINE_S / STEP_S)):
        if found := sorted(folder.glob(name)):
            return found[0]
        tick.wait(STEP_S)
    raise AssertionError(f"no {name} in {folder}")


def test_killed_twice_while_files_arrive(spark: SparkSession, tmp_path: Path) -> None:
    """Once while a batch is written and once when it is, but Spark may not have noted it yet."""
    chance = random.Random(2)
    out = default_output(tmp_path, "consumption") / SAMPLES
    write_samples(tmp_path, "gateway-0-run-00000001", chance)
    with driver(tmp_path) as kill:
        wait_for(out, "batch-000000000")
        for number in range(1, 5):
            write_samples(tmp_path, f"gateway-1-run-{number:08d}", chance, rows=400)
        wait_for(out, ".batch-000000001")
        kill()
    write_samples(tmp_path, "gateway-0-run-00000002", chance, hour=2)
    with driver(tmp_path) as kill:
        wait_for(out, "batch-000000002")
        kill()
    write_samples(tmp_path, "gateway-0-run-00000003", chance, hour=1)
    run_stream(spark, tmp_path, "consumption", once=True)
    assert said_by(stream_sections(spark, tmp_path, "consumption", OPTIONS)) == said_by(
        JOBS["consumption"].sections({SAMPLES: read_table(spark, tmp_path, SAMPLES)}, OPTIONS)
    )


def said_by(sections: Sequence[Section]) -> dict[str, list[Row]]:
    return {each.name: each.frame.collect() for each in sections if each.name in {"groups", "unattributed", "per_hour"}}

"""A driver for a test: ``python -m tests.spark.streaming.streaming_driver STORAGE JOB POINT`` runs a stream up to that
point.

There it kills its process group, Python and the JVM alike, with SIGKILL. POINT: ``written`` (a batch is there under its
hidden name), ``renamed`` (under its own, and Spark does not know it), ``noting`` (Spark begins to note it as done).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import NoReturn

from pyspark.sql import DataFrame

from muster.spark.session import local_session
from muster.spark.streaming.output import BatchFolders
from muster.spark.streaming.stream import default_output, run_stream


def die() -> NoReturn:
    os.killpg(0, signal.SIGKILL)
    raise AssertionError("still alive")


def die_renaming(point: str) -> None:
    rename = Path.rename

    def deadly(path: Path, target: Path) -> Path:
        if point == "renamed":
            rename(path, target)
        die()

    Path.rename = deadly  # type: ignore[assignment,method-assign]


def die_noting(checkpoint: Path) -> None:
    write = BatchFolders.write

    def watched(folders: BatchFolders, rows: DataFrame, batch: int) -> None:
        write(folders, rows, batch)
        threading.Thread(target=wait, args=(checkpoint / folders.table / "commits", batch), daemon=True).start()

    def wait(notes: Path, batch: int) -> None:
        while not list(notes.glob(f"*{batch}*")):
            pass
        die()

    setattr(BatchFolders, "write", watched)  # noqa: B010 - mypy does not let a method be assigned


def main() -> None:
    storage, job, point = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if point == "noting":
        die_noting(default_output(storage, job) / "_checkpoint")
    else:
        die_renaming(point)
    with local_session(cores=1) as session:
        run_stream(session, storage, job)


if __name__ == "__main__":
    main()

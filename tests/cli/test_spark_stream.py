"""``muster spark --stream`` as a user runs it: output grows until Ctrl-C."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import ROOT
from tests.spark.arrivals import write_samples

pytestmark = pytest.mark.ring(name="spark-apart")

PATIENCE_S = 300
"""Spark has a low priority (:mod:`muster.spark.priority`), and other tests run at the same time."""


@pytest.mark.timeout(PATIENCE_S + 20)
def test_a_stream_is_shown_as_it_grows_until_it_is_interrupted_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    """Interrupted as by a terminal: the signal goes to the whole process group."""
    storage, scratch = tmp_path / "storage", tmp_path / "scratch"
    for folder in (storage, scratch):
        folder.mkdir()
    write_samples(storage, "gateway-0-run-00000001", random.Random(1), rows=3)
    command = ("spark", "consumption", "--local", "--stream", "--format", "json", "--group", "g-1", "--group", "absent")
    process = subprocess.Popen(
        [sys.executable, "-m", "muster.gateway.cli.main", *command, "--storage", str(storage)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout
        assert process.stderr
        first = json.loads(process.stdout.readline())
        write_samples(storage, "gateway-0-run-00000002", random.Random(2), rows=100)
        second = json.loads(process.stdout.readline())
        assert second["now"] > first["now"]
        was, now = (
            [row["messages"] for row in result["jobs"]["consumption"]["groups"]["rows"]] for result in (first, second)
        )
        assert sum(was) < sum(now)
        children = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert psutil.wait_procs(children, timeout=PATIENCE_S)[1] == []
        said = process.stderr.read()
        assert "Traceback" not in said
        assert "nothing is stored without --out; interrupt ends it" in said
        assert "group absent: no such group in that time" in said
        assert said.endswith("\nmuster: interrupted\n")
        assert list(scratch.iterdir()) == []
    finally:
        process.kill()
        process.wait()

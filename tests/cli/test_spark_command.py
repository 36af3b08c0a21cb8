"""``muster spark`` and ``muster report`` as a user runs them. tests/spark tests their results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from muster.gateway.analytics.runs import JOBS
from muster.gateway.cli.times import moment
from muster.spark import jobs
from tests.cli.conftest import ROOT, Muster, commands, one_line

PATIENCE_S = 300
"""Spark has a low priority (:mod:`muster.spark.priority`), and other tests run at the same time."""

pytestmark = [pytest.mark.ring(name="spark"), pytest.mark.timeout(PATIENCE_S + 20)]

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def muster(tmp_path: Path) -> Muster:
    """Like that of the other commands, with more time."""
    return commands(tmp_path, PATIENCE_S)


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """With tables that have no files yet."""
    (tmp_path / "storage" / "metrics").mkdir(parents=True)
    return tmp_path / "storage"


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-05-01", "2026-05-01T00:00:00+00:00"),
        ("2026-05-01T12:30", "2026-05-01T12:30:00+00:00"),
        ("2026-05-01T12:30:00+02:00", "2026-05-01T10:30:00+00:00"),
        ("-1h", "2026-05-01T11:00:00+00:00"),
        ("-1d12h", "2026-04-30T00:00:00+00:00"),
        ("-PT90M", "2026-05-01T10:30:00+00:00"),
        ("now", "2026-05-01T12:00:00+00:00"),
    ],
)
def test_moments(text: str, iso: str) -> None:
    assert moment(text, NOW).isoformat() == iso


@pytest.mark.parametrize("text", ["", "yesterday", "1h", "-", "-1 parsec", "-99999999999d", "2026-13-01"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="ISO 8601"):
        moment(text, NOW)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("spark", "lag"), "no muster runs on storage muster-data"),
        (("report", "--out", "r.html"), "--local reads its tables without it"),
        (("spark", "lag", "--from", "later"), "'later' is neither an ISO 8601 time"),
        (("spark", "lag", "--local", "--from", "-1h", "--to", "-2h"), "is not before --to"),
        (("spark", "lag", "--local", "--format", "parquet"), "--format parquet needs --out"),
        (("spark", "lag", "--local", "--format", "html"), "--format html needs --out"),
        (
            ("spark", "lag", "--local", "--stream", "--format", "html"),
            "a stream can be shown as table or json, not as html",
        ),
        (
            ("spark", "placement", "--local", "--stream"),
            "has no streaming form; consumption, lag, attribution have one",
        ),
        (("spark", "lag", "--local", "--once"), "--once needs --stream"),
        (("spark", "lag", "--json", "--format", "html", "--out", "x"), "--json excludes --format html"),
        (("spark", "lag", "--json", "--wide"), "--format json has all tables and columns: --wide is for a terminal"),
        (("spark", "lag", "--out", "lag.txt", "--details"), "--out has all tables and columns: --details is for"),
        (("spark", "lag", "--wide", "--details"), "name one of them"),
        (("spark", "lag", "--local", "--price-per-gib", "nan"), "'nan' is not a finite number"),
        (("spark", "lag", "--local", "--out", "missing/lag.json"), "lag.json cannot be written: there is no folder"),
        (("report", "--local", "--out", "missing/lag.html"), "lag.html cannot be written: there is no folder"),
        (("spark", "lag", "--local", "--out", "."), "is a folder: name a file"),
        (("spark", "lag", "--local", "--format", "parquet", "--out", "/"), "/ exists already"),
        (("spark", "lag", "--local", "--executor-memory", "64m"), "at least 450m of memory"),
        (("spark", "lag", "--local", "--executor-memory", "much"), "'much' is not a size"),
        (("spark", "lag", "--local", "--timezone", "Mars/Olympus"), "is not a time zone"),
        (("spark", "lag", "--local", "--storage", "nowhere"), "there are no tables in"),
        (("spark", "lag", "--address", "127.0.0.1:1"), "there are no tables in"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_said_in_one_line(muster: Muster, arguments: tuple[str, ...], says: str) -> None:
    assert says in one_line(muster(*arguments))


def test_an_unknown_job_is_wrong_usage(muster: Muster) -> None:
    done = muster("spark", "nojob")
    assert done.returncode == 2
    assert "'nojob' is not one of 'consumption', 'lag'," in one_line(done)
    assert tuple(jobs.JOBS) == JOBS


def test_a_folder_of_the_users_that_is_called_spark_is_not_ours(muster: Muster, tmp_path: Path) -> None:
    theirs = tmp_path / "spark"
    theirs.mkdir()
    (theirs / "__init__.py").write_text("raise SystemExit('theirs')")
    assert "there are no tables in" in one_line(muster("spark", "lag", "--local", "--storage", "nowhere"))


def test_a_heap_that_no_jvm_has_is_refused(muster: Muster, storage: Path) -> None:
    done = muster("spark", "lag", "--local", "--storage", str(storage), "--executor-memory", "99999999t")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("muster: Spark does not start, with a heap of ")


def test_a_ray_that_is_not_there(muster: Muster, storage: Path) -> None:
    done = muster("spark", "lag", "--address", "127.0.0.1:1", "--storage", str(storage))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("muster: no Ray responds at 127.0.0.1:1: ")


def test_empty_tables_have_a_result(muster: Muster, storage: Path, tmp_path: Path) -> None:
    done = muster("spark", "consumption", "--local", "--storage", str(storage), "--format", "json", "--group", "a")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["groups"] == ["a"]
    assert "group a: no such group in that time" in done.stderr
    assert result["jobs"]["consumption"]
    assert all(section["rows"] == [] for section in result["jobs"]["consumption"].values())


def test_details_begin_with_the_summary(muster: Muster, storage: Path) -> None:
    done = muster("spark", "consumption", "--local", "--storage", str(storage), "--details")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines[:3] == ["consumption: Who reads how much?", "INFO: Nothing was sent.", "Messages and bytes per group"]


def test_a_damaged_table_is_named_and_the_file_is_not_written(muster: Muster, storage: Path, tmp_path: Path) -> None:
    hour = storage / "metrics/samples/date=2026-05-01/hour=12"
    hour.mkdir(parents=True)
    (hour / "gateway-1-x-1.parquet").write_bytes(b"PAR1 not really PAR1")
    out = tmp_path / "out.json"
    done = muster(
        *("spark", "consumption", "--local", "--storage", str(storage)), *("--format", "json", "--out", str(out))
    )
    assert done.returncode == 1
    assert "gateway-1-x-1.parquet" in done.stderr.splitlines()[-1]
    assert done.stdout == ""
    assert not out.exists()


def test_sigterm_in_the_middle_of_a_job_ends_it_and_its_jvm(storage: Path, tmp_path: Path) -> None:
    """Spark gets far more work than it can do before the signal."""
    endless = tmp_path / "endless.py"
    endless.write_text(
        "import sys\n"
        "from muster.spark.session import local_session\n"
        "from muster.spark.signals import end_on_signals\n"
        "with local_session(cores=1) as session:\n"
        "    end_on_signals(session)\n"
        "    job = session.range(10**15).selectExpr('sum(id * id)')\n"
        "    print('runs', flush=True)\n"
        "    job.collect()\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(endless)], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "runs\n"
        jvms = psutil.Process(process.pid).children(recursive=True)
        while not any(jvm.cpu_percent(0.2) > 30 for jvm in jvms):  # it computes
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143
        assert psutil.wait_procs(jvms, timeout=PATIENCE_S)[1] == []
    finally:
        process.kill()
        process.wait()

"""The jobs of docs/ray.md: they are in examples/ as the page has them, and do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/ray.md").read_text()
JOBS = dict(re.findall(r"^`examples/(\w+)\.py`:[^\n]*\n\n```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
_RUN_S = 400


def test_the_page_has_five_jobs() -> None:
    assert {*JOBS} == {"notebook", "nightly_to_parquet", "topic_to_topic", "pool_by_lag", "serve_by_lag"}


@pytest.mark.parametrize("job", JOBS)
def test_the_page_shows_parts_of_the_file(job: str) -> None:
    file = (ROOT / f"examples/{job}.py").read_text()
    texts = [file, textwrap.indent(file, ""), textwrap.dedent(re.sub(r"^(?! {8}).*$", "", file, flags=re.MULTILINE))]
    for part in re.split(r"\n\n\n|# of main\(\):\n", JOBS[job].strip()):
        assert any(part.removeprefix("# %%\n").strip() in text for text in texts), part


@pytest.mark.ring(name="ray")
@pytest.mark.timeout(_RUN_S + 60)
@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("notebook", [r"Cluster\('127\.0\.0\.1:\d+'\)", r"UA1 +2 +26\.0"]),
        ("nightly_to_parquet", ["night 1: 500 flights exported", "night 2: 1000 flights exported", "1500 flights in"]),
        ("topic_to_topic", ["batch 1: 10000 records", "10000 records, 99990000 in all"]),
        (
            "pool_by_lag",
            [r"others have its partitions, [\d.]+ s after", r"it is replaced, [\d.]+ s", "^stopped: stopped"],
        ),
        ("serve_by_lag", [r"^ +\d+ +4 +\d+ ", r"it is replaced, after \d+ s"]),
    ],
)
def test_a_job_does_what_it_says(tmp_path: Path, job: str, said: list[str]) -> None:
    """Ray writes a token into the user's home, which is another one here."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{job}"],
        cwd=ROOT,
        env=environment | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=_RUN_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for line in said:
        assert re.search(line, done.stdout, re.MULTILINE), done.stdout

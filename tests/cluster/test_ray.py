"""The examples of docs/ray.md that use Ray's own reader and writer, on the Ray of the shared cluster."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from muster.gateway.cli.storage.directory import read_state
from tests.muster_process import Muster

_PAGE = Path(__file__).parents[2] / "docs" / "ray.md"
_IN_PAGE = "127.0.0.1:9092"
_RUN_S = 300


@pytest.mark.timeout(_RUN_S + 60)
def test_the_examples_print_what_the_page_says(muster: Muster, fresh: Callable[[str], str], tmp_path: Path) -> None:
    """In one program, as they stand there but for address, topic and group."""
    text = _PAGE.read_text().partition("## With Ray's own reader and writer")[2]
    source = "\n\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    said = re.findall(r"^```python\n.*?^```\n\n^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for name in ("flights", "planners"):
        source = source.replace(f'"{name}"', f'"{fresh(name)}"')
    program = tmp_path / "program.py"
    program.write_text(source.replace(_IN_PAGE, muster.bootstrap))
    state = read_state(muster.storage)
    assert state is not None
    private = {
        "RAY_ADDRESS": state.ray_address,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(state.ray_token_path),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }
    done = subprocess.run(
        [sys.executable, program], env=os.environ | private, capture_output=True, text=True, timeout=_RUN_S
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [line for line in done.stdout.splitlines() if line in "".join(said).splitlines()]
    assert lines == "".join(said).splitlines(), done.stdout[-4000:]


def test_why_the_page_imports_in_the_actor() -> None:
    """Once this fails, confluent-kafka's classes can be pickled by name, and the page has advice too many."""
    assert importlib.util.find_spec(confluent_kafka.Consumer.__module__) is None

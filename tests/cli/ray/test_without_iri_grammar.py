"""jsonschema imports rfc3987-syntax if it is installed, which takes seconds; Muster's processes avoid that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GRAMMAR = "print('a grammar is built')\ndef is_valid_syntax(*_): return True\n"
COMMAND = """
import contextlib, sys
from muster.gateway.cli.main import main
sys.argv = ["muster", "status", "--storage", "nowhere"]
with contextlib.suppress(SystemExit):
    main()
import jsonschema
"""
FORKS = """
import os, socket
from muster.gateway.cli.ray.worker_forks import main
main(socket.create_server(("127.0.0.1", 0)).detach())
import jsonschema
"""


@pytest.mark.parametrize(
    ("code", "built"),
    [("import jsonschema", True), (COMMAND, False), (FORKS, False)],
    ids=["jsonschema alone", "a command", "the process that forks workers"],
)
def test_a_process_builds_no_grammar(code: str, built: bool, tmp_path: Path) -> None:
    (tmp_path / "rfc3987_syntax.py").write_text(GRAMMAR)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        input="",  # a pipe that has ended
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert ("a grammar is built" in done.stdout) == built

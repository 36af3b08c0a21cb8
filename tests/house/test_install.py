"""``make setup`` says in few lines how far pip is, and all that pip says if it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

INSTALL = Path(__file__).parents[2] / "deploy" / "install.py"


def test_what_fails_is_shown(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.lock"
    requirements.write_text(f"no-such-package==1.0 --hash=sha256:{'0' * 64}\n")
    done = subprocess.run(
        [sys.executable, str(INSTALL), str(requirements)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PIP_NO_INDEX": "1"},
    )
    assert done.returncode == 1
    assert "No matching distribution found for no-such-package==1.0" in done.stderr
    assert done.stderr.endswith(f"muster: pip could not install {requirements}: see above\n")


def test_what_is_there_already_is_one_line(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.lock"
    requirements.write_text("")
    done = subprocess.run(
        [sys.executable, str(INSTALL), str(requirements)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("   done in ")

"""``make setup`` says in few lines how far pip is, and all that pip says if it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTALL = ROOT / "deploy" / "install.py"


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


def test_what_is_set_up_is_ready(tmp_path: Path) -> None:
    """The last line of ``make setup`` is what to do next; targets that set up first do not say it."""
    projects = ("pyproject.toml", "pytest-muster/pyproject.toml")
    for name in ("Makefile", "requirements.lock", "tests/rings/rings.toml", *projects):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/.requirements.lock").write_bytes((ROOT / "requirements.lock").read_bytes())
    (tmp_path / ".venv/.installed").write_bytes(b"".join((ROOT / name).read_bytes() for name in projects))
    quietly = ["make", "--no-print-directory", "setup"]  # which make test would not be otherwise
    said = subprocess.run(quietly, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stdout, said.stderr) == (0, "ready: .venv/bin/muster up\n", "")
    assert "ready:" not in subprocess.run(["make", "-n", "lint"], cwd=tmp_path, capture_output=True, text=True).stdout

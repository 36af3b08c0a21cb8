"""Programs that only a benchmark needs, each in an environment of its own, so that they are no dependency of Muster."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

_CACHE = Path(__file__).parents[2] / ".cache"
"""Ignored by git."""


def python_with(package: str) -> Path:
    """Return a Python with that package, given as ``NAME==VERSION``; pip installs it on first use.

    Raises CalledProcessError.
    """
    name, _, _ = package.partition("==")
    environment = _CACHE / name
    installed = environment / package
    python = environment / "bin" / "python"
    if not installed.exists():
        venv.create(environment, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", package], stdout=sys.stderr, check=True)
        installed.touch()
    return python

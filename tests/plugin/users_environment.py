"""The environment of somebody who tests with pytest-muster: its wheel, pytest, and what else is named; no Muster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "pytest-muster"


def build_wheel(directory: Path) -> Path:
    """The wheel of pytest-muster, built from a copy of this checkout's."""
    shutil.copytree(SOURCE, directory / "source", ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(directory / "source"))
    _pip(sys.executable, *build)
    (wheel,) = directory.glob("*.whl")
    return wheel


def make_environment(directory: Path, wheel: Path, others: Iterable[str] = ()) -> Path:
    """A new environment with the wheel, pytest and the other distributions: its Python.

    pytest and the others are this environment's, linked, so that nothing is fetched.
    """
    venv.create(directory, symlinks=True)
    python = directory / "bin" / "python"
    _pip(str(python), "install", "--no-deps", "--no-index", str(wheel))
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", purelib], capture_output=True, text=True, check=True).stdout.strip())
    for name in _needed({"pytest", *others}):
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            (packages / top).symlink_to(distribution(name).locate_file(top))
    return python


def run_pytest(python: Path, directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest in that folder, by that Python, when it has ended; PATH has no more than the system's.

    Without CI and BUILD_NUMBER: where one is set, pytest's summary repeats whole errors.
    """
    left_out = ("MUSTER_", "PYTEST", "PYTHON", "CI", "BUILD_NUMBER")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        env={**kept, "PATH": os.defpath, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _needed(names: set[str]) -> Iterator[str]:
    """The distributions, and those that they need on this machine."""
    seen: set[str] = set()
    left = set(names)
    while left:
        name = left.pop()
        seen.add(name)
        yield name
        for requirement in distribution(name).requires or ():
            needed, _, marker = requirement.partition(";")
            found = re.match(r"[\w.-]+", needed)
            if found and not marker and found[0].lower() not in seen:
                left.add(found[0].lower())


def _pip(python: str, *arguments: str) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, *arguments]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

"""The environment of a user of pytest-muster: its wheel, pytest, and other named distributions.

Muster is included only if its wheel is given.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "pytest-muster"


def build_wheel(directory: Path) -> Path:
    """The wheel of pytest-muster, built from a copy of this checkout's."""
    shutil.copytree(SOURCE, directory / "source", ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
    return _built(directory)


def build_wheel_of_muster(directory: Path) -> Path:
    """The wheel of Muster, built from a copy of what git knows or would add."""
    for file in files_of_checkout():
        copy = directory / "source" / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, copy, follow_symlinks=False)
    return _built(directory)


def files_of_checkout() -> list[str]:
    """As git knows them, or would add them; relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [file for file in dict.fromkeys(listed) if os.path.lexists(ROOT / file) and file]


def make_environment(directory: Path, wheel: Path, others: Iterable[str] = ()) -> Path:
    """A new environment with the wheel, pytest and the other distributions; returns its Python.

    pytest and the others are links to this environment's, so that nothing is fetched.
    """
    return _environment(directory, [wheel], _needed({"pytest", *others}))


def make_environment_with_muster(directory: Path, *wheels: Path) -> Path:
    """A new environment with the wheels, and everything here except Muster and pytest-muster; returns its Python."""
    names = {found.name for found in distributions()} - {"muster-kafka", "pytest-muster"}
    return _environment(directory, wheels, names)


def run_pytest(python: Path, directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in that folder with that Python to its end; PATH has only the system's folders.

    Without CI and BUILD_NUMBER: with either of them, pytest's summary repeats whole errors.
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


def _built(directory: Path) -> Path:
    """The wheel, built from the folder ``source``."""
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(directory / "source"))
    _pip(sys.executable, *build)
    (wheel,) = directory.glob("*.whl")
    return wheel


def _environment(directory: Path, wheels: Iterable[Path], linked: Iterable[str]) -> Path:
    venv.create(directory, symlinks=True)
    python = directory / "bin" / "python"
    _pip(str(python), "install", "--no-deps", "--no-index", *map(str, wheels))
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", purelib], capture_output=True, text=True, check=True).stdout.strip())
    for name in linked:
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            if not (packages / top).exists():
                (packages / top).symlink_to(str(distribution(name).locate_file(top)))
    return python


def _needed(names: set[str]) -> Iterator[str]:
    """The distributions, and their requirements on this machine."""
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

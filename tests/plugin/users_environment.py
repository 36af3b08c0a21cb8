"""The environment of a user of pytest-muster: its wheel, pytest, and other named distributions.

Muster is included only if its wheel is given.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "pytest-muster"


def build_wheel(directory: Path) -> Path:
    """Build the wheel of pytest-muster from a copy of this checkout's."""
    shutil.copytree(SOURCE, directory / "source", ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(directory / "source"))
    _pip(sys.executable, *build)
    (wheel,) = directory.glob("*.whl")
    return wheel


def make_dist(directory: Path) -> None:
    """Run ``make dist`` for this checkout, with what is not committed, in the environment as it is."""
    make = ["make", "--silent", "--old-file=setup", "--directory", str(ROOT)]
    make += ["dist", f"DIST={directory}", f"TREE={_tree()}"]
    done = subprocess.run(make, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def files_of_checkout() -> list[str]:
    """Return the files that ``make_dist`` sees, relative to the root."""
    return _git("ls-tree", "-r", "-z", "--name-only", _tree()).split("\0")[:-1]


def _tree() -> str:
    """Git's tree of this checkout, by an index of its own."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"GIT_INDEX_FILE": f"{folder}/index"}
        _git("read-tree", "HEAD", **own)
        _git("add", "--all", **own)
        return _git("write-tree", **own).strip()


def _git(*arguments: str, **environment: str) -> str:
    command, environment = ["git", *arguments], {**os.environ, **environment}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def make_environment(directory: Path, wheel: Path, others: Iterable[str] = ()) -> Path:
    """Make a new environment with the wheel, pytest and the other distributions; return its Python.

    pytest and the others are links to this environment's, so that nothing is fetched.
    """
    return _environment(directory, [wheel], _needed({"pytest", *others}))


def make_environment_with_muster(directory: Path, *archives: Path) -> Path:
    """Make a new environment with the wheels or sdists; return its Python.

    It has everything here except Muster and pytest-muster.
    """
    names = {found.name for found in distributions()} - {"muster-kafka", "pytest-muster"}
    return _environment(directory, archives, names)


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


def _environment(directory: Path, archives: Iterable[Path], linked: Iterable[str]) -> Path:
    venv.create(directory, symlinks=True)
    python = directory / "bin" / "python"
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", purelib], capture_output=True, text=True, check=True).stdout.strip())
    for name in linked:
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            if not (packages / top).exists():
                (packages / top).symlink_to(str(distribution(name).locate_file(top)))
    _pip(str(python), "install", "--no-deps", "--no-index", "--no-build-isolation", *map(str, archives))
    return python


def _needed(names: set[str]) -> Iterator[str]:
    """Yield the distributions, and their requirements on this machine."""
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

"""From where Ray's workers, and the processes that a command starts, import Muster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOT_TO_ADD = "from muster.actors.runtime.ray.imports import root_to_add; print(root_to_add())"
CHILD = (
    "import subprocess, sys; from muster.actors.runtime.ray.imports import let_processes_import; "
    "let_processes_import(); code = 'import muster; print(muster.__file__)'; "
    "subprocess.run([sys.executable, '-P', '-c', code], cwd='/', check=True)"
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout other than the installed one, as far as it is imported here."""
    root = tmp_path_factory.mktemp("checkout")
    for package in ("muster", "muster/actors", "muster/actors/runtime", "muster/actors/runtime/ray"):
        (root / package).mkdir()
        shutil.copy(ROOT / package / "__init__.py", root / package)
    for module in ("ray/imports", "ray/public_api", "without_hypothesis"):
        shutil.copy(ROOT / f"muster/actors/runtime/{module}.py", (root / f"muster/actors/runtime/{module}").parent)
    return root


def printed(code: str, folder: Path, path: str | None = None) -> str:
    """Python's output in that folder, with that PYTHONPATH."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = kept if path is None else {**kept, "PYTHONPATH": path}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("folder", [ROOT, Path("/")], ids=["in the checkout", "elsewhere"])
def test_an_installed_muster_needs_no_path(folder: Path) -> None:
    assert printed(ROOT_TO_ADD, folder) == "None"


def test_a_checkout_that_is_imported_from_the_working_directory_is_added(checkout: Path, tmp_path: Path) -> None:
    assert printed(ROOT_TO_ADD, checkout) == str(checkout)
    path = f"{tmp_path}::{tmp_path / 'missing'}"
    assert printed(CHILD, checkout, path) == str(checkout / "muster/__init__.py")


def test_a_checkout_that_is_on_the_path_already_is_not_added(checkout: Path) -> None:
    assert printed(ROOT_TO_ADD, Path("/"), str(checkout)) == "None"
    assert printed(CHILD, Path("/"), str(checkout)) == str(checkout / "muster/__init__.py")

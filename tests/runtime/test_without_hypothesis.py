"""kio imports hypothesis if it is installed; Muster's processes avoid that, and leave no folder behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.test_layers import ROOT, imported

PACKAGES = ("placement", "actors", "gateway", "spark")
"""Folders, and packages below ``muster``."""
IMPORT_ALL = """
import importlib, pkgutil, sys
import muster
for module in pkgutil.walk_packages(muster.__path__, "muster."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
COMMAND = """
import contextlib, sys
import muster.gateway.cli.main
sys.argv = {}
with contextlib.suppress(SystemExit):
    muster.gateway.cli.main.main()
"""
REPORT = "\nimport sys; print('hypothesis' in sys.modules)"


@pytest.mark.parametrize(
    "code",
    [
        IMPORT_ALL,
        "import muster.actors.controller.actor",
        "import muster.gateway.actor",
        "import muster.spark.command",
        COMMAND.format(["muster", "--help"]),
        COMMAND.format(["muster", "fault", "inject", "--help"]),
    ],
    ids=["every module", "actors", "gateway", "Spark", "muster --help", "muster fault"],
)
def test_a_process_has_no_hypothesis(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code + REPORT], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split()[-1:] == ["False"], done.stderr
    assert list(tmp_path.iterdir()) == []


def test_kio_alone_would_import_it(tmp_path: Path) -> None:
    """When this fails, kio has changed, and ``muster.actors.runtime.without_hypothesis`` can be removed."""
    code = "import kio.schema.errors, kio.static.primitive" + REPORT
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]


def test_who_has_hypothesis_keeps_it() -> None:
    code = (
        "import hypothesis, muster.actors, sys; import hypothesis.strategies; "
        "assert sys.modules['hypothesis'] is hypothesis"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_who_imports_it_later_has_it() -> None:
    subprocess.run([sys.executable, "-c", "import muster.actors.wire.kafka.codec, hypothesis.strategies"], check=True)


def test_nobody_imports_kio_past_actors() -> None:
    """Every module below ``actors`` has imported that package first."""
    wrong = [
        f"{file.relative_to(ROOT)}:{line}"
        for package in {*PACKAGES, "examples"} - {"actors"}
        for file in sorted((ROOT / package).rglob("*.py"))
        for name, line in imported(file)
        if name == "kio"
    ]
    assert not wrong

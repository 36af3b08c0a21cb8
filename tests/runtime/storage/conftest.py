"""A file system that breaks its promises, by a small library that is loaded before the C library."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
Weak = Callable[[str], dict[str, str]]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("weak") / "weak.so"
    source = Path(__file__).with_name("weak.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-o", str(built), str(source), "-ldl"], check=True, timeout=60)
    return built


@pytest.fixture
def weak(request: pytest.FixtureRequest, tmp_path: Path) -> Weak:
    """Return a function that gives the environment of a process for which files in ``tmp_path`` are weak in that way.

    "" for not at all.
    """

    def environment_of(how: str) -> dict[str, str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        if not how:
            return environment
        library: Path = request.getfixturevalue("library")  # only then is a C compiler needed
        return {**environment, "LD_PRELOAD": str(library), "WEAK": how, "WEAK_UNDER": str(tmp_path)}

    return environment_of

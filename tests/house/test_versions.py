"""The name and the versions of pyproject.toml are the same everywhere; ``make test-versions`` runs them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from muster.gateway.cli import distribution

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]
_SUPPORTED = SpecifierSet(PROJECT["requires-python"])
PYTHONS = [python for minor in range(30) if (python := f"3.{minor}") in _SUPPORTED]


def of_tox(factor: str, *, among: bool) -> list[str]:
    """Pythons of tox's environments with, or without, the factor in their name."""
    names = [name for name in PYPROJECT["tool"]["tox"]["env_list"] if (factor in name.split("-")) is among]
    return [re.sub(r"py3(\d+)(-.*)?", r"3.\1", name) for name in names]


def needed(python: str) -> Iterator[Requirement]:
    for requirement in map(Requirement, [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["spark"]]):
        if requirement.marker is None or requirement.marker.evaluate({"python_version": python}):
            yield requirement


def test_the_distribution_has_one_name() -> None:
    assert PROJECT["name"] == distribution.NAME
    assert f" --reinstall-package {distribution.NAME} " in (ROOT / "cluster.yaml").read_text()
    for lock in ("requirements.lock", "requirements-hosts.lock"):
        names = set(re.findall(r"([\w-]+) \(pyproject\.toml", (ROOT / lock).read_text()))
        assert names == {distribution.NAME}


def test_the_newest_release_has_one_version() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    plugin = tomllib.loads((ROOT / "pytest-muster/pyproject.toml").read_text())["project"]
    newest = re.fullmatch(r"(\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d", headings[1])
    assert newest is not None
    assert newest[1] == PROJECT["version"] == plugin["version"]


def test_every_python_is_classified_tested_and_documented() -> None:
    prefix = "Programming Language :: Python :: 3."
    assert [f"3.{text.removeprefix(prefix)}" for text in PROJECT["classifiers"] if text.startswith(prefix)] == PYTHONS
    assert of_tox("plugin", among=False) == PYTHONS
    sentence = f"Python {', '.join(PYTHONS[:-1])} or {PYTHONS[-1]}"
    assert sentence in (ROOT / "README.md").read_text()
    assert PYPROJECT["tool"]["mypy"]["python_version"] == PYTHONS[0]


def test_the_plugin_is_tested_with_older_pythons_too() -> None:
    plugin = tomllib.loads((ROOT / "pytest-muster/pyproject.toml").read_text())["project"]
    supported = SpecifierSet(plugin["requires-python"])
    assert [*of_tox("plugin", among=True), *PYTHONS] == [f"3.{n}" for n in range(14) if f"3.{n}" in supported]


@pytest.mark.parametrize("python", PYTHONS)
def test_one_spark_for_each_python(python: str) -> None:
    (spark,) = (requirement for requirement in needed(python) if requirement.name == "pyspark")
    has_raydp = any(requirement.name == "raydp" for requirement in needed(python))
    assert ("3.5.7" in spark.specifier, "4.0.0" in spark.specifier) == (has_raydp, True)


def test_raydp_takes_no_spark_4() -> None:
    """Once it does, RayDP and Spark 4 are available for every Python."""
    (spark,) = (needed for needed in map(Requirement, requires("raydp") or ()) if needed.name == "pyspark")
    assert "3.5.7" in spark.specifier
    assert "4.0.0" not in spark.specifier

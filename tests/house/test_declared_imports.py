"""Imported packages are declared: what another package happens to bring may go with its next release."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.house.test_layers import ROOT, imported, imports_between, modules

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
OURS = {
    "actors",
    "gateway",
    "placement",
    "spark",
    "muster",
    "data",
    "pool",
    "serve",
    "examples",
    "benchmarks",
    "tests",
    "pytest_muster",
}
FOR_CHECKERS = {"_typeshed"}
"""Modules that only type checkers have."""
_OF_EXTRAS = {
    "console": ("gateway/console",),
    "data": ("actors/log/format/arrow", "gateway/client/consuming", "gateway/client/data", "gateway/client/pool"),
    "serve": ("gateway/client/serving",),
    "spark": ("spark",),
}
"""Parts that only an extra can use."""
APART = (ROOT / "tests/conformance/quix", *(ROOT / folder for each in _OF_EXTRAS.values() for folder in each))
"""A program in an environment of its own, and those parts."""


def normal(name: str) -> str:
    """Return the name of a distribution as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize(
    ("folders", "extras"),
    [
        (("actors", "gateway", "muster", "placement"), ()),
        *((folders, (extra,)) for extra, folders in _OF_EXTRAS.items()),
        (("examples/demo",), ("demo",)),
        (("benchmarks", "examples", "tests"), ("console", "data", "demo", "dev", "serve", "spark")),
    ],
    ids=["product", *_OF_EXTRAS, "demo", "checkout"],
)
def test_imports_are_declared(folders: tuple[str, ...], extras: tuple[str, ...]) -> None:
    """One distribution is enough for a package that several share, such as ``opentelemetry``."""
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in EXTRAS[extra])]
    declared = {normal(Requirement(text).name) for text in texts}
    providers = packages_distributions()
    tops = [ROOT / folder for folder in folders]
    files = [file for top in tops for file in sorted(top.rglob("*.py")) if not {*APART} & {*file.parents} - {top}]
    assert files
    undeclared = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in files
        for name, line in imported(file)
        if name not in sys.stdlib_module_names | OURS | FOR_CHECKERS
        if not declared & {normal(provider) for provider in providers.get(name, ())}
    ]
    assert not undeclared


def test_actors_do_not_import_what_only_an_extra_can_use() -> None:
    """Actors load no numpy (see ``actors/tables/arrow.py``)."""
    arrow = "muster.actors.log.format.arrow"
    importers = {
        name
        for name, others in imports_between(modules()).items()
        if name.startswith("muster.actors.") and any(other.startswith(arrow) for other in others)
    }
    assert importers
    assert not {name for name in importers if not name.startswith(arrow)}


def test_declared_packages_have_both_bounds() -> None:
    """The next major version comes when ``make test-versions`` has passed with it."""
    texts = [*PROJECT["dependencies"], *(text for texts in EXTRAS.values() for text in texts)]
    bounds = {text: {each.operator for each in Requirement(text).specifier} for text in texts}
    assert not [text for text, operators in bounds.items() if operators != {">=", "<"}]

"""A ring is due after a change of its tests, and of what they import."""

from __future__ import annotations

import subprocess

import pytest

from tests.rings.imports import paths_of
from tests.rings.ring import ROOT, Ring, load


def files_of(ring: Ring) -> set[str]:
    command = ["git", "-C", str(ROOT), "ls-files", "--", *paths_of(ring)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("nodes", "tests/nodes/launched/test_ray_up.py"),  # a test
        ("conformance", "tests/conformance/verified.csv"),  # data beside tests
        ("failover", "examples/demo/observer.py"),  # what they import
        ("nodes", "tests/log/support.py"),  # and what that imports
        ("conformance", "tests/gateway/quotas/kafka_quotas.json"),  # data beside what they import
        ("programs", "tests/conformance/conftest.py"),  # what pytest loads
        ("spark-apart", "tests/stopwatch.py"),
        ("fuzz", "tests/fuzz/__main__.py"),  # a command of make
    ],
)
def test_a_file_makes_a_ring_due(name: str, file: str) -> None:
    assert file in files_of(load()[name])


def test_others_do_not() -> None:
    found = files_of(load()["conformance"])
    assert "tests/nodes/bench.py" not in found
    assert "tests/gateway/quotas/test_throttling.py" not in found, "a module beside one that is imported"

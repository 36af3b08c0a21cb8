"""The pytest plugin: a running Muster as the fixture ``muster``. How to use it: docs/testing-consumers.md.

Loaded by every pytest where Muster is installed, so nothing is imported here that a test run without it would pay for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from actors.faults import FaultClient
    from gateway.testing import Muster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("muster_properties", "Properties of the fixture muster's cluster, as NAME=VALUE.", type="linelist")
    parser.addini("muster_gateways", "How many gateways the fixture muster's cluster has.", default="1")
    parser.addini("muster_start_timeout_s", "How long the fixture muster's cluster may take to start.", default="120")


@pytest.fixture(scope="session")
def muster_properties(pytestconfig: pytest.Config) -> Mapping[str, str]:
    """What is set on the cluster of ``muster``, by default what ``muster_properties`` says in pytest's configuration.

    Override it for properties that are made in Python.
    """
    lines = [line for line in pytestconfig.getini("muster_properties") if line]
    if bad := [line for line in lines if "=" not in line]:
        raise pytest.UsageError(f"muster_properties has lines NAME=VALUE, not {bad[0]!r}")
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


@pytest.fixture(scope="session")
def muster(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, muster_properties: Mapping[str, str]
) -> Iterator[Muster]:
    """A running cluster, one for all tests of the session (with pytest-xdist, of the worker)."""
    from gateway.testing import Muster, MusterNotStarted

    running = Muster(
        tmp_path_factory.mktemp("muster") / "storage",
        properties=muster_properties,
        gateways=int(pytestconfig.getini("muster_gateways")),
        start_timeout_s=float(pytestconfig.getini("muster_start_timeout_s")),
    )
    try:
        running.start()
    except MusterNotStarted as error:
        pytest.fail(str(error), pytrace=False)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def muster_faults(muster: Muster) -> Iterator[FaultClient]:
    """The fault API of ``muster``; what a test injects is cleared when it ends."""
    yield muster.faults
    muster.faults.clear()

"""The pytest plugin: a running Muster as the fixture ``muster``. Usage: docs/testing-consumers.md.

Every pytest loads it where it is installed, so it imports nothing that would slow down test runs without it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_muster.cluster import Muster, RunningMuster
    from pytest_muster.faults import FaultClient

_SETTINGS = {
    "command": "The command that stands for muster, as /opt/muster/bin/muster. Default: muster beside this Python, or "
    "on PATH.",
    "requirement": "What to install with uvx where there is no muster command, as a pip requirement.",
    "bootstrap": "HOST:PORT,... of a Muster that runs; the fixture muster starts none then.",
    "http": "URL,... of its gateways' HTTP ports, for faults and metrics: metrics= of its ready line.",
}
"""Settings of the command line, the environment (MUSTER_COMMAND ...) or pytest's configuration."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("muster", "the fixture muster")
    for name, text in _SETTINGS.items():
        group.addoption(f"--muster-{name}", metavar=name.upper(), help=f"{text} Also MUSTER_{name.upper()}.")
        parser.addini(f"muster_{name}", text, default="")
    parser.addini("muster_properties", "Properties of the fixture muster's cluster, as NAME=VALUE.", type="linelist")
    parser.addini("muster_gateways", "How many gateways the fixture muster's cluster has.", default="1")
    parser.addini("muster_start_timeout_s", "How long the fixture muster's cluster may take to start.", default="120")


def _setting(config: pytest.Config, name: str) -> str | None:
    """Return the setting: the command line overrides the environment, which overrides the configuration file."""
    option = config.getoption(f"--muster-{name}")
    return option or os.environ.get(f"MUSTER_{name.upper()}") or config.getini(f"muster_{name}") or None


@pytest.fixture(scope="session")
def muster_properties(pytestconfig: pytest.Config) -> Mapping[str, str]:
    """Properties of the cluster of ``muster``, by default ``muster_properties`` of pytest's configuration.

    Override it for properties that are computed in Python.
    """
    lines = [line for line in pytestconfig.getini("muster_properties") if line]
    bad = [line for line in lines if "=" not in line]
    if bad:
        raise pytest.UsageError(f"muster_properties has lines NAME=VALUE, not {bad[0]!r}")
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


@pytest.fixture(scope="session")
def muster(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, muster_properties: Mapping[str, str]
) -> Iterator[Muster | RunningMuster]:
    """Yield a running cluster, shared by all tests of the session (with pytest-xdist, of the worker)."""
    from pytest_muster.cluster import Muster, MusterNotStarted, RunningMuster

    bootstrap = _setting(pytestconfig, "bootstrap")
    if bootstrap is not None:
        if muster_properties:
            text = f"muster_properties are not set: the Muster at {bootstrap} runs already"
            warnings.warn(pytest.PytestWarning(text), stacklevel=1)
        yield RunningMuster(bootstrap, [url for url in (_setting(pytestconfig, "http") or "").split(",") if url])
        return
    running = Muster(
        tmp_path_factory.mktemp("muster") / "storage",
        properties=muster_properties,
        gateways=int(pytestconfig.getini("muster_gateways")),
        start_timeout_s=float(pytestconfig.getini("muster_start_timeout_s")),
        command=_setting(pytestconfig, "command"),
        requirement=_setting(pytestconfig, "requirement"),
    )
    failure = None
    try:
        running.start()
    except MusterNotStarted as error:
        failure = str(error)
    if failure is not None:  # outside the handler, or pytest shows both errors
        pytest.fail(failure, pytrace=False)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def muster_faults(muster: Muster | RunningMuster) -> Iterator[FaultClient]:
    """Yield the fault API of ``muster``; faults that a test injects are cleared when it ends."""
    faults = muster.faults
    yield faults
    faults.clear()

"""The distributions, as ``make dist`` makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.users_environment import make_dist


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheels and sdists of muster-kafka and pytest-muster."""
    folder = tmp_path_factory.mktemp("dist")
    make_dist(folder)
    return folder

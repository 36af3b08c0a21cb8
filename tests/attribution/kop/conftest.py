from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.attribution.kop.rules import Kop, Ours
from tests.attribution.kop.world import World
from tests.gateway.conftest import fresh, full

__all__ = ["fresh", "full"]


@pytest.fixture
def kop() -> Kop:
    return Kop()


@pytest.fixture
def ours() -> Ours:
    return Ours()


@pytest.fixture
def world(kop: Kop, ours: Ours) -> World:
    """KoP's rule and Muster's, side by side."""
    return World((kop, ours))


@pytest.fixture
def world_of(ours: Ours) -> Callable[..., World]:
    """Return a maker of worlds with these rules, and Muster's."""
    return lambda *rules: World((*rules, ours))

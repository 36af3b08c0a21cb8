from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from muster.actors.group.config import GroupConfig
from tests.group.driver import Driver


@pytest.fixture
def make() -> Iterator[Callable[..., Driver]]:
    """Yield a maker of drivers. At the end of the test, replaying each one's log must give its live hard state."""
    made: list[Driver] = []

    def new(*, auto: bool = True, start: bool = True, **properties: Any) -> Driver:
        made.append(Driver(GroupConfig(**properties), auto=auto, start=start))
        return made[-1]

    yield new
    for driver in made:
        if not driver.unwritten:
            assert driver.replayed() == driver.core.hard_state


@pytest.fixture
def driver(make: Callable[..., Driver]) -> Driver:
    return make()

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from muster.actors.transactions.config import TransactionConfig
from tests.transactions.driver import Driver


@pytest.fixture
def make() -> Iterator[Callable[..., Driver]]:
    """Yield a maker of drivers. At the end of the test, replaying each one's log must give its live hard state."""
    made: list[Driver] = []

    def new(*, auto: bool = True, takes: bool = True, **properties: Any) -> Driver:
        made.append(Driver(TransactionConfig(**properties), auto=auto, takes=takes))
        return made[-1]

    yield new
    for driver in made:
        if not driver.unwritten:
            assert driver.replayed() == driver.core.hard_state


@pytest.fixture
def driver(make: Callable[..., Driver]) -> Driver:
    return make()


@pytest.fixture
def classic(make: Callable[..., Driver]) -> Driver:
    """Return a coordinator of a cluster with ``transaction.version`` 1."""
    return make(transaction_version=1)

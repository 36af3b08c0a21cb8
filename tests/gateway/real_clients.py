"""Real client libraries over a gateway without Ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.gateway.serving import Serving


@contextmanager
def reachable(full: Serving) -> Iterator[str]:
    """Put the gateway's real address into views inside the block.

    Clients bootstrap from the address that is yielded.
    """
    brokers = full.controller.brokers
    bootstrap = full.reachable()
    try:
        yield bootstrap
    finally:
        full.controller.brokers = brokers
        full.follow(full.controller.view())

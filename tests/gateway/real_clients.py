"""Real client libraries over a gateway without Ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from placement.view import Broker
from tests.gateway.serving import Serving


@contextmanager
def reachable(full: Serving) -> Iterator[str]:
    """Views have the gateway's real address within; it is what clients bootstrap from."""
    view = full.controller.view
    here = Broker(id=1, host="127.0.0.1", port=full.port, node_id="n1")
    full.controller.view = lambda: replace(view(), brokers=(here,))  # type: ignore[method-assign]
    full.follow(full.controller.view())
    try:
        yield f"127.0.0.1:{full.port}"
    finally:
        full.controller.view = view  # type: ignore[method-assign]
        full.follow(view())

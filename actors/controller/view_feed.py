"""The controller's side of the long poll: serves the newest view, and knows which view each gateway has.

Followers send no reports: each requests the view after the one that it has applied, which is report enough.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ray.exceptions import RayError

from muster.actors.controller.managed import Managed
from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

Order = tuple[int, int]

POLL_S = 20.0
"""How long a poll waits before it returns that nothing has changed."""
PATIENCE_S = 3.0
"""How long to wait for gateways. They follow within milliseconds, or 0.3 s on a very busy machine."""
ADOPT_S = 3.0
"""How long a new controller waits for each of its predecessor's actors; a live one answers within milliseconds."""


class _Bell:
    """Rings when something may have changed; every waiter then checks again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def until(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``ready`` holds; False after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while not ready():
                    await self._event.wait()
        except TimeoutError:
            return False
        return True


class ViewFeed:
    """For one event loop."""

    def __init__(self) -> None:
        self.view: ClusterView | None = None
        self._published = _Bell()
        self._followed = _Bell()
        self._has: dict[str, Order | None] = {}
        self._slow: set[str] = set()
        """Gateways that a wait has timed out on: they are not waited for again before their next poll."""

    def publish(self, view: ClusterView) -> None:
        """Publish a view that is newer than all before."""
        self.view = view
        self._published.ring()
        self._followed.ring()

    async def until(self, ready: Callable[[ClusterView], bool], timeout_s: float) -> bool:
        """Wait for a view for which ``ready`` holds; False after the timeout."""
        return await self._published.until(lambda: self.view is not None and ready(self.view), timeout_s)

    async def after(self, order: Order | None, follower: str | None = None) -> ClusterView | None:
        """Return the view once it is newer than ``order``, which ``follower`` has; None after POLL_S."""
        if follower is not None:
            self._has[follower] = order
            self._slow.discard(follower)
            self._followed.ring()
        newer = await self.until(lambda view: order is None or view.order > order, POLL_S)
        return self.view if newer else None

    async def until_followed(self, timeout_s: float) -> bool:
        """Wait until all serving gateways have the current view or a newer one, for at most PATIENCE_S.

        False if one of them does not have it. A gateway that dies is no longer waited for once that is known.
        """
        assert self.view is not None
        order, patience_s = self.view.order, min(timeout_s, PATIENCE_S)
        if await self._followed.until(lambda: not self._behind(order) - self._slow, patience_s):
            return not self._behind(order)
        if patience_s == PATIENCE_S:
            self._slow |= self._behind(order)
            log.warning("%s: slow to follow, not waited for until the next poll", ", ".join(sorted(self._slow)))
        return False

    def _behind(self, order: Order) -> set[str]:
        assert self.view is not None
        names = {f"gateway-{broker.id}" for broker in self.view.brokers}
        return {name for name in names if (has := self._has.get(name)) is None or has < order}


async def view_of(gateway: Managed) -> ClusterView | None:
    """Return the view that a gateway has; None if it does not say."""
    try:
        async with asyncio.timeout(ADOPT_S):
            view: ClusterView | None = await gateway.handle.view.remote()
            return view
    except (RayError, TimeoutError) as error:
        log.warning("%s does not say which view it has: %r", gateway.name, error)
        return None

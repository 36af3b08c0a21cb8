"""The controller's side of the long poll: hands out the newest view, and knows how far each gateway has followed.

Nobody reports what it has: a follower asks for what comes after the view that it has taken in, and that says it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

Order = tuple[int, int]

POLL_S = 20.0
"""How long a poll waits before it says that nothing changed."""
PATIENCE_S = 3.0
"""How long gateways are waited for. They follow within milliseconds, or 0.3 s on a machine that is very busy."""


class _Bell:
    """Rings when something may have changed; whoever waits looks again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def until(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until that holds; False after the timeout."""
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
        """Gateways for which somebody has waited in vain: nobody does again before their next poll."""

    def publish(self, view: ClusterView) -> None:
        """It is newer than any before."""
        self.view = view
        self._published.ring()
        self._followed.ring()

    async def until(self, ready: Callable[[ClusterView], bool], timeout_s: float) -> bool:
        """Wait for such a view; False after the timeout."""
        return await self._published.until(lambda: self.view is not None and ready(self.view), timeout_s)

    async def after(self, order: Order | None, follower: str | None = None) -> ClusterView | None:
        """The view once it is newer than ``order``, which ``follower`` has; None when none came within POLL_S."""
        if follower is not None:
            self._has[follower] = order
            self._slow.discard(follower)
            self._followed.ring()
        newer = await self.until(lambda view: order is None or view.order > order, POLL_S)
        return self.view if newer else None

    async def until_followed(self, timeout_s: float) -> bool:
        """Wait until all gateways that serve have the view of now, or a newer one; PATIENCE_S at most.

        False when one of them does not have it. One that dies is no longer waited for once that is known.
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

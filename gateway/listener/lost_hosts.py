"""Has clients look for other gateways when a host is lost without a sign (power failure, cut network).

The clients of the gateway there get neither a response nor a reset, and wait until their requests time out: 30 s with
Java and kafka-python, 60 s with librdkafka. No server can reach them on that connection. But most clients have
connections to other gateways, too. These have the client request the metadata again, from which the lost gateway is
missing; librdkafka (since 2.10) then gives up what it requested there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from muster.gateway.listener.complaints import Cause, Complaint
from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

_PERIOD_S = 0.5
_ATTEMPTS = 40
"""A view can lose a gateway before Ray declares its node dead, which takes a minute with Ray's defaults."""


class LostHosts:
    """For one event loop."""

    def __init__(
        self,
        alive: Callable[[], Awaitable[Collection[str]]],
        have_metadata_requested: Callable[[Complaint], Awaitable[None]],
    ) -> None:
        """``alive``: ids of the live nodes; ``have_metadata_requested`` has this gateway's clients do that."""
        self._alive = alive
        self._have_metadata_requested = have_metadata_requested
        self._without: set[str] = set()
        """Nodes that have lost their gateway, until it is known whether they are lost."""
        self._watching: asyncio.Task[None] | None = None

    def follow(self, before: ClusterView, after: ClusterView) -> None:
        """Follow a newer view. A node whose gateway has stopped, or starts again, may be alive."""
        served, serve = ({broker.node_id for broker in view.brokers} for view in (before, after))
        self._without = (self._without | served) - serve
        if self._without and (self._watching is None or self._watching.done()):
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        for _ in range(_ATTEMPTS):
            try:
                alive = await self._alive()
            except Exception as error:  # whatever Ray raises
                log.info("which nodes are alive is not known: %r", error)
            else:
                await self._report(self._without - set(alive))
            if not self._without:
                return
            await asyncio.sleep(_PERIOD_S)
        self._without.clear()

    async def _report(self, lost: set[str]) -> None:
        if lost:
            self._without -= lost
            log.warning("node %s is lost: clients should look for other gateways", ", ".join(sorted(lost)))
            why = "the host of another gateway is lost, and the client may not know"
            await self._have_metadata_requested(Complaint(Cause.HOST_LOST, why))

    def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

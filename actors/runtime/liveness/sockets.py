"""Pings of an actor over its internal socket, whose event loop sends them back as it serves a call of Ray.

A call of Ray takes many times as much processor time, in both processes: pings of all coordinators by Ray would be a
third of what a cluster at rest takes.
"""

from __future__ import annotations

import asyncio

from muster.actors.wire.internal.channel import Channel, connect
from muster.actors.wire.internal.envelope import Role
from muster.placement.view import Endpoint


class SocketPings:
    """Pings of one process, over a connection that is made for them."""

    def __init__(self, endpoint: Endpoint, node_id: str) -> None:
        """``node_id`` is that of this process."""
        self._endpoint = endpoint
        self._node_id = node_id
        self._channel: Channel | None = None

    async def answered(self, timeout_s: float) -> bool:
        """Whether the process responds in time. If not, that proves nothing: the socket may be all that fails."""
        try:
            async with asyncio.timeout(timeout_s):
                channel = self._channel
                if channel is None or not channel.usable:
                    channel = self._channel = await self._connect()
                await channel.ping()
        except (OSError, TimeoutError):
            self.close()
            return False
        return True

    async def _connect(self) -> Channel:
        return await connect(self._endpoint, self._node_id, on_updates=None, on_lost=lambda: None, role=Role.ACTOR)

    def close(self) -> None:
        """Close the connection; the next ping makes another one."""
        if self._channel is not None:
            self._channel.abort("its pings end")
            self._channel = None

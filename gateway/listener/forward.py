"""The gateway's connections to the actors that own partitions: one channel each, reconnected when lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from muster.actors.wire.internal import channels
from muster.actors.wire.internal.channel import Channel, ChannelLost, NotSent, OnUpdates
from muster.actors.wire.internal.envelope import Role
from muster.actors.wire.internal.leader_epochs import OnLeaderEpochs
from muster.placement.view import OFFSETS, ClusterView, Endpoint

log = logging.getLogger(__name__)

_FIRST_RETRY_S = 0.05
_LAST_RETRY_S = 1.0
TAKE_OVER_S = 2.0
"""How long after the loss of an actor requests wait for what serves in its place. A standby does within 0.1 s."""
_RESIGNS_S = 0.5
"""How long an actor that refuses requests, since it is being replaced, may keep its connections."""

ActorKey = channels.ActorKey


class Forwarder(channels.Channels):
    """Follows the cluster view: connects to every actor in it, and reconnects while the actor is in it."""

    def __init__(self, node_id: str, on_updates: OnUpdates, on_epochs: OnLeaderEpochs) -> None:
        super().__init__(lambda: node_id, Role.GATEWAY, on_updates=on_updates, on_epochs=on_epochs)
        self._met: dict[ActorKey, Endpoint] = {}
        """Where each actor was last connected."""
        self._missing_since_s: dict[ActorKey, float] = {}
        self._keepers: dict[ActorKey, tuple[Endpoint, asyncio.Task[None]]] = {}
        """Tasks that connect to actors, and where."""
        self._changed: set[asyncio.Future[None]] = set()

    def log(self, index: int) -> Channel | None:
        """Return the channel to ``log-<index>``, or None while it is down."""
        return self.channel(("log", index))

    def offsets(self, partition: int) -> Channel | None:
        """Return the channel to ``offsets-<partition>``, or None while it is down or if it was never started."""
        return self.channel((OFFSETS, partition))

    def coordinators(self) -> list[Channel]:
        """Return the channels to all offsets partitions that were started.

        Raises ChannelLost while one of them is down.
        """
        found = [self.channel(key) for key in self._wanted if key[0] == OFFSETS]
        if None in found:
            raise ChannelLost("a coordinator is down")
        return [channel for channel in found if channel is not None]

    def is_new(self, key: ActorKey) -> bool:
        """Whether that actor was never connected where the view has it now."""
        return key in self._wanted and self._met.get(key) != self._wanted[key]

    @property
    def reachable(self) -> dict[ActorKey, bool]:
        """Whether each actor that the view names, or that was lost, has a channel now."""
        return {key: self.channel(key) is not None for key in (*self._wanted, *self._missing_since_s)}

    async def soon(self, key: ActorKey, instead_of: Channel | None = None) -> Channel | None:
        """Return the channel to that actor; None once it has been down for :data:`TAKE_OVER_S`.

        ``instead_of`` is a channel over which the actor has refused requests as one that is being replaced: it does not
        count, and unless it is closed soon, there is no other.
        """
        if instead_of is not None and not await self.until(lambda: not instead_of.usable, _RESIGNS_S):
            return None
        channel = self.channel(key)
        if channel is None:
            now_s = asyncio.get_running_loop().time()
            left_s = self._missing_since_s.setdefault(key, now_s) + TAKE_OVER_S - now_s
            await self.until(lambda: self.channel(key) is not None, left_s)
            channel = self.channel(key)
        return channel

    def follow(self, view: ClusterView) -> None:
        """Connect to the actors that the view names, and disconnect from the others."""
        super().follow(view)
        for key, (endpoint, _) in list(self._keepers.items()):
            if self._wanted.get(key) != endpoint:
                self.drop(key)
        for key, endpoint in self._wanted.items():
            if key not in self._keepers:
                self._keepers[key] = endpoint, asyncio.get_running_loop().create_task(self._keep(key))

    def drop(self, key: ActorKey, why: str = channels.MOVED) -> bool:
        """Disconnect from that actor, and connect no more."""
        _, keeper = self._keepers.pop(key)
        keeper.cancel()
        if had_one := super().drop(key, why):
            self._missed(key)
        return had_one

    def _missed(self, key: ActorKey) -> None:
        self._missing_since_s.setdefault(key, asyncio.get_running_loop().time())
        self._wake()

    async def _keep(self, key: ActorKey) -> None:
        pause_s = _FIRST_RETRY_S
        while True:
            lost = asyncio.Event()
            try:
                channel = await self.connect(key, lost.set)
            except NotSent as error:
                log.debug("%s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_RETRY_S)
                continue
            self._missing_since_s.pop(key, None)
            self._met[key] = channel.endpoint
            self._wake()
            log.info("connected to %s-%d", *key)
            began_s = asyncio.get_running_loop().time()
            try:
                await lost.wait()
            finally:
                channel.close()
            if self._channels.get(key) is channel:
                del self._channels[key]
            self._missed(key)
            log.warning("lost %s-%d", *key)
            if asyncio.get_running_loop().time() - began_s > _LAST_RETRY_S:
                pause_s = _FIRST_RETRY_S
            else:  # it may be lost each time for the same reason
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_RETRY_S)

    async def until(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``ready()`` holds, checked after every change of a channel; False after the timeout."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not ready():
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                return False
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._changed.add(changed)
            try:
                await asyncio.wait([changed], timeout=left_s)
            finally:
                self._changed.discard(changed)
        return True

    def _wake(self) -> None:
        for future in self._changed:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        for key in list(self._keepers):
            self.drop(key)

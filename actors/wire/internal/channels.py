"""A process's channels to actors: one to each, at most, and only where the view has the actor."""

from __future__ import annotations

from collections.abc import Callable

from muster.actors.wire.internal.channel import Channel, NotSent, OnUpdates, connect
from muster.actors.wire.internal.envelope import Role
from muster.actors.wire.internal.leader_epochs import OnLeaderEpochs
from muster.placement.view import COORDINATORS, ClusterView, Endpoint

ActorKey = tuple[str, int]
"""("log", index), or a coordinator: ("offsets", partition) or ("transactions", partition)."""
MOVED = "another process serves now, or none"
"""Why a channel is closed, usually."""


class Channels:
    """Keeps them for one event loop. A channel that is lost stays until there is another, and is not usable."""

    def __init__(
        self,
        node_id: Callable[[], str],
        role: Role,
        *,
        on_updates: OnUpdates | None = None,
        on_epochs: OnLeaderEpochs | None = None,
    ) -> None:
        """``node_id`` returns the node of this process, ``role`` is this process's own."""
        self._node_id = node_id
        self._role = role
        self._on_updates = on_updates
        self._on_epochs = on_epochs
        self._wanted: dict[ActorKey, Endpoint] = {}
        """Where the view has actors."""
        self._channels: dict[ActorKey, Channel] = {}

    def channel(self, key: ActorKey) -> Channel | None:
        """Return the channel to that actor, or None while there is none that is usable."""
        channel = self._channels.get(key)
        return channel if channel is not None and channel.usable else None

    def follow(self, view: ClusterView) -> None:
        """Disconnect from actors that are elsewhere now, or nowhere."""
        endpoints = {("log", index): endpoint for index, endpoint in view.logs.items()}
        for kind in COORDINATORS.values():
            endpoints |= {(kind, partition): endpoint for partition, endpoint in view.owners(kind).items()}
        self._wanted = {key: endpoint for key, endpoint in endpoints.items() if endpoint is not None}
        for key, channel in list(self._channels.items()):
            if channel.endpoint != self._wanted.get(key):
                self.drop(key)

    async def connect(self, key: ActorKey, on_lost: Callable[[], None] = lambda: None) -> Channel:
        """Connect to that actor. Raises NotSent if it is down, has moved meanwhile, or cannot be reached."""
        name, endpoint = "{}-{}".format(*key), self._wanted.get(key)
        if endpoint is None:
            raise NotSent(f"{name} is down")
        try:
            channel = await connect(
                endpoint,
                self._node_id(),
                on_updates=self._on_updates,
                on_lost=on_lost,
                role=self._role,
                on_epochs=self._on_epochs,
            )
        except OSError as error:
            raise NotSent(f"{name} cannot be reached: {error}") from error
        if endpoint != self._wanted.get(key):
            channel.close()
            raise NotSent(f"{name} has moved")
        self._channels[key] = channel
        return channel

    def drop(self, key: ActorKey, why: str = MOVED) -> bool:
        """Disconnect from that actor; what waits gets ChannelLost. Returns whether there was a channel."""
        channel = self._channels.pop(key, None)
        if channel is not None:
            channel.abort(why)
        return channel is not None

"""The connections of an actor to other actors: each is made when it is first needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError

from muster.actors.runtime.errors import first_line
from muster.actors.runtime.follow import CurrentController
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.wire.internal.channel import Channel, ChannelLost, NotSent
from muster.actors.wire.internal.channels import ActorKey, Channels
from muster.actors.wire.internal.envelope import Role
from muster.actors.wire.internal.verification import VerifyRequest
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.limited_log import LimitedLog
from muster.placement.hashing import partition_for
from muster.placement.view import COORDINATORS, TRANSACTIONS, TRANSACTIONS_TOPIC, ClusterView

log = logging.getLogger(__name__)

_VERIFY_S = 10.0

T = TypeVar("T")
Activate = Callable[[int, str], Awaitable[Any]]
"""Has the controller start the coordinator of a partition, of that kind. Raises RayError if it cannot."""


def own_channels(settings: ClusterSettings, view: ClusterView) -> ActorChannels:
    """Return the channels of this process, an actor of Ray."""
    controller = CurrentController(settings)
    return ActorChannels(lambda: ray.get_runtime_context().get_node_id(), view, controller.activate.remote)


class ActorChannels(Channels):
    """For one event loop. Also finds who owns a transaction, and so verifies partitions: a ``TransactionVerifier``."""

    def __init__(self, node_id: Callable[[], str], view: ClusterView, activate: Activate) -> None:
        """``node_id`` returns the node of this process."""
        super().__init__(node_id, Role.ACTOR)
        super().follow(view)
        self.view = view
        self._activate = activate
        self._connecting: dict[ActorKey, asyncio.Task[Channel]] = {}
        self._starting: dict[ActorKey, asyncio.Task[bool]] = {}
        self._followed = asyncio.Event()
        """Set with the next view."""
        self._limited_log = LimitedLog(log)

    def follow(self, view: ClusterView) -> None:
        """Disconnect from actors that are elsewhere now, or nowhere."""
        self.view = view
        self._followed.set()
        self._followed = asyncio.Event()
        super().follow(view)

    async def to(self, actor: ActorKey) -> Channel:
        """Return the channel to that actor.

        Raises NotSent if it is down; a coordinator that never ran is started meanwhile.
        """
        channel = self.channel(actor)
        if channel is not None:
            return channel
        connecting = self._connecting.get(actor)
        if connecting is None:
            if self._never_ran(actor):
                self._start(actor)
            connecting = self._connecting[actor] = _begin(self.connect(actor), lambda: self._connecting.pop(actor))
        return await _unless_closed(connecting)

    def _never_ran(self, actor: ActorKey) -> bool:
        kind, number = actor
        return kind in COORDINATORS.values() and number not in self.view.owners(kind)

    def _start(self, actor: ActorKey) -> asyncio.Task[bool]:
        """Start the actor; the task returns whether it starts: then a view that has it will come."""
        kind, partition = actor

        async def start() -> bool:
            try:
                await self._activate(partition, kind)
            except RayError as error:
                text = "%s-%d cannot be started now: %s"
                self._limited_log.warning("start", kind, text, kind, partition, first_line(error))
                return False
            return True

        if actor not in self._starting:
            self._starting[actor] = _begin(start(), lambda: self._starting.pop(actor))
        return self._starting[actor]

    async def _to_coordinator(self, actor: ActorKey) -> Channel:
        """Return the channel, after waiting for a coordinator that never ran. Raises NotSent if it does not start."""
        followed = self._followed
        while self._never_ran(actor):
            if not await _unless_closed(self._start(actor)):
                raise NotSent(f"{actor[0]}-{actor[1]} does not start")
            await followed.wait()
            followed = self._followed
        return await self.to(actor)

    async def verify(self, request: VerifyRequest) -> list[ErrorCode]:
        """See :class:`muster.actors.wire.internal.verification.TransactionVerifier`."""
        topic = self.view.topics.get(TRANSACTIONS_TOPIC)
        error = ErrorCode.coordinator_not_available
        if topic is not None:
            try:
                async with asyncio.timeout(_VERIFY_S):
                    partition = partition_for(request.transactional_id, topic.partitions)
                    channel = await self._to_coordinator((TRANSACTIONS, partition))
                    return await channel.verify(request)
            except NotSent:
                pass
            except (ChannelLost, TimeoutError):
                error = ErrorCode.network_exception
        return [error] * len(request.partitions)

    def close(self) -> None:
        """Disconnect from all. What waits gets ChannelLost; NotSent is one."""
        for task in (*self._connecting.values(), *self._starting.values()):
            task.cancel()
        for actor in list(self._channels):
            self.drop(actor, "this process does not serve any more")
        self._limited_log.flush()


async def _unless_closed(task: asyncio.Task[T]) -> T:
    """Return the result of a task of these channels.

    Raises NotSent if they were closed; cancelling the caller leaves the task.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise NotSent("this process does not serve any more") from None
        raise


def _begin(work: Coroutine[Any, Any, Any], at_end: Callable[[], object]) -> asyncio.Task[Any]:
    def ended(task: asyncio.Task[Any]) -> None:
        at_end()
        if not task.cancelled():
            task.exception()  # those that wait get it; asyncio need not report it

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(ended)
    return task

"""Sends the coordinator's markers to the actors that own the partitions of a transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from ray.exceptions import RayError

from muster.actors.runtime.channels import ActorChannels
from muster.actors.runtime.errors import first_line
from muster.actors.transactions.types import TOPIC_DELETED, MarkerRequest, TopicPartition
from muster.actors.wire.internal.channel import ChannelLost
from muster.actors.wire.internal.channels import ActorKey
from muster.actors.wire.internal.markers import Marked, Marker, TopicIdPartition
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.limited_log import LimitedLog
from muster.placement.view import COORDINATORS

log = logging.getLogger(__name__)

_MARK_S = 30.0
"""How long an actor may take, which waits for its disk."""

Results = Mapping[TopicPartition, ErrorCode]
PartitionCounts = Callable[[Collection[str]], Awaitable[Mapping[str, int]]]
"""How many partitions these topics have now, by ZooKeeper; without those that it does not have. Raises RayError."""


class _Part(NamedTuple):
    """Partitions of a marker at one actor."""

    request: MarkerRequest
    partitions: dict[TopicIdPartition, TopicPartition]


class MarkerSender:
    """Sends what is due in one turn of the event loop in one message for each actor; repeats nothing."""

    def __init__(
        self,
        partition: int,
        epoch: int,
        channels: ActorChannels,
        partition_counts: PartitionCounts,
        marked: Callable[[MarkerRequest, Results], None],
    ) -> None:
        """Call ``marked`` once with the result of each partition of each request, in any number of calls."""
        self._partition = partition
        self._epoch = epoch
        self._channels = channels
        self._partition_counts = partition_counts
        self._marked = marked
        self._due: dict[ActorKey, list[_Part]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._limited_log = LimitedLog(log)

    def send(self, requests: Iterable[MarkerRequest]) -> None:
        """Begin to send; by the newest view."""
        for request in requests:
            absent: list[TopicPartition] = []
            parts: dict[ActorKey, _Part] = {}
            for each in request.partitions:
                owner = self._owner(each)
                if owner is None:
                    absent.append(each)
                else:
                    actor, key = owner
                    parts.setdefault(actor, _Part(request, {})).partitions[key] = each
            for actor, part in parts.items():
                self._add(actor, part)
            if absent:
                self._spawn_absent(request, absent)

    def _owner(self, partition: TopicPartition) -> tuple[ActorKey, TopicIdPartition] | None:
        view = self._channels.view
        name, index = partition
        topic = view.topics.get(name)
        if topic is None or index >= topic.partitions:
            return None
        kind = COORDINATORS.get(name)
        actor = (kind, index) if kind is not None else ("log", view.log_of(topic, index))
        return actor, (topic.topic_id, index)

    def _add(self, actor: ActorKey, part: _Part) -> None:
        if actor not in self._due:
            self._due[actor] = []
            asyncio.get_running_loop().call_soon(self._flush, actor)
        self._due[actor].append(part)

    def _flush(self, actor: ActorKey) -> None:
        parts = self._due.pop(actor, None)
        if parts:
            self._spawn(self._deliver(actor, parts))

    async def _deliver(self, actor: ActorKey, parts: list[_Part]) -> None:
        markers = [self._marker(part) for part in parts]
        try:
            channel = await self._channels.to(actor)
            done: asyncio.Future[Marked] = asyncio.get_running_loop().create_future()

            def on_marked(marked: Marked | ChannelLost) -> None:
                if done.done():
                    return
                if isinstance(marked, ChannelLost):
                    done.set_exception(marked)
                else:
                    done.set_result(marked)

            channel.mark(markers, on_marked, timeout_s=_MARK_S)
            results = await done
            if [*map(len, results)] != [len(part.partitions) for part in parts]:
                raise ChannelLost("a response to other markers")
        except ChannelLost as error:
            text = "%d markers got no response of %s-%d: %s"
            self._limited_log.warning("no response", actor[0], text, len(parts), *actor, error)
            results = [[ErrorCode.network_exception] * len(part.partitions) for part in parts]
        for part, codes in zip(parts, results, strict=True):
            self._marked(part.request, dict(zip(part.partitions.values(), codes, strict=True)))

    def _marker(self, part: _Part) -> Marker:
        request = part.request
        return Marker(
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            coordinator_epoch=self._epoch,
            commit=request.commit,
            transaction_version=request.transaction_version,
            decision=request.decision,
            coordinator_partition=self._partition,
            partitions=[*part.partitions],
        )

    def _spawn_absent(self, request: MarkerRequest, partitions: list[TopicPartition]) -> None:
        self._spawn(self._look_up(request, partitions))

    async def _look_up(self, request: MarkerRequest, partitions: list[TopicPartition]) -> None:
        """Partitions that the view does not have: their topic is deleted, or this process is behind.

        A topic never loses partitions, so one that ZooKeeper does not have either is of a topic that was deleted.
        """
        unknown, deleted = ErrorCode.unknown_topic_or_partition, TOPIC_DELETED
        try:
            counts = await self._partition_counts(sorted({name for name, _ in partitions}))
        except RayError as error:
            text = "whether topics of a transaction are deleted is not known now: %s"
            self._limited_log.warning("deleted topics", "the controller", text, first_line(error))
            self._marked(request, dict.fromkeys(partitions, unknown))
            return
        self._marked(request, {each: unknown if each[1] < counts.get(each[0], 0) else deleted for each in partitions})

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Report nothing any more. What was sent may still be written."""
        self._due.clear()
        for task in self._tasks:
            task.cancel()
        self._limited_log.flush()

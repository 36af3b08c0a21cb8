"""Which partitions are this log actor's, by the cluster view.

A gateway may have heard of a topic before this actor has: views reach every actor by itself. What is unknown here is
therefore waited for, :data:`LATE_S` at most, before it is refused: librdkafka takes UNKNOWN_TOPIC_ID as final.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from muster.actors.log.errors import NotLeader, UnknownTopicId, UnknownTopicOrPartition
from muster.placement.view import ClusterView, Topic

LATE_S = 5.0
"""How long a view may be under way to one actor when another has it."""
MAY_COME = (UnknownTopicId, UnknownTopicOrPartition)
"""What a newer view may mend."""


class Routing:
    """Follows the view that ``view_of`` gives; for one event loop."""

    def __init__(self, view_of: Callable[[], ClusterView], index: int) -> None:
        self._view_of = view_of
        self._index = index
        self._routed_by: ClusterView | None = None
        self._owned: dict[tuple[UUID, int], Topic] = {}
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """A newer view is there."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def view(self) -> ClusterView:
        """The current view; what was derived from the one before is forgotten."""
        view = self._view_of()
        if view is not self._routed_by:
            self._routed_by = view
            self._owned.clear()
        return view

    def topic(self, topic_id: UUID | None, partition: int) -> Topic:
        """The topic of a partition that is this actor's.

        :raises UnknownTopicId, UnknownTopicOrPartition: the view does not have it, or not yet.
        :raises NotLeader: it is another actor's.
        """
        view = self.view()
        if topic_id is None:
            raise UnknownTopicId("no topic id")
        owned = self._owned.get((topic_id, partition))
        if owned is None:
            owned = self._owned[topic_id, partition] = self._check_owned(view, topic_id, partition)
        return owned

    def named(self, name: str) -> Topic:
        """A topic by its name. UnknownTopicOrPartition if the view does not have it."""
        topic = self.view().topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"no topic {name}")
        return topic

    async def soon(self, find: Callable[[], Topic]) -> Topic:
        """What ``find`` gives, now or with one of the next views; after LATE_S what it raises."""
        try:
            async with asyncio.timeout(LATE_S):
                while True:
                    changed = self._changed
                    try:
                        return find()
                    except MAY_COME:
                        await changed.wait()
        except TimeoutError:
            return find()

    def _check_owned(self, view: ClusterView, topic_id: UUID, partition: int) -> Topic:
        topic = view.topic_by_id(topic_id)
        if topic is None:
            raise UnknownTopicId(f"no topic with id {topic_id}")
        if not 0 <= partition < topic.partitions:
            raise UnknownTopicOrPartition(f"{topic.name} has {topic.partitions} partitions, none numbered {partition}")
        if topic.internal or view.log_of(topic, partition) != self._index:
            raise NotLeader(f"{topic.name}-{partition} belongs to another actor")
        return topic

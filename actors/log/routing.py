"""Which partitions this log actor owns, according to the cluster view.

Views reach each actor independently, so a gateway may know a topic before this actor does. Requests for an unknown
topic therefore wait for at most :data:`LATE_S` before they are refused: librdkafka treats UNKNOWN_TOPIC_ID as final.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from muster.actors.log.errors import NotLeader, UnknownTopicId, UnknownTopicOrPartition
from muster.placement.view import ClusterView, Topic

LATE_S = 5.0
"""How long one actor may still lack a view that another actor already has."""
MAY_COME = (UnknownTopicId, UnknownTopicOrPartition)
"""Errors that a newer view may resolve."""


class Routing:
    """Follows the view that ``view_of`` returns. For one event loop."""

    def __init__(self, view_of: Callable[[], ClusterView], index: int) -> None:
        self._view_of = view_of
        self._index = index
        self._routed_by: ClusterView | None = None
        self._owned: dict[tuple[UUID, int], Topic] = {}
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Wake those who wait for a newer view."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def view(self) -> ClusterView:
        """Return the current view. State derived from an earlier view is dropped."""
        view = self._view_of()
        if view is not self._routed_by:
            self._routed_by = view
            self._owned.clear()
        return view

    def topic(self, topic_id: UUID, partition: int) -> Topic:
        """Return the topic of a partition that this actor owns.

        :raises UnknownTopicId, UnknownTopicOrPartition: the view does not have it, or not yet.
        :raises NotLeader: another actor owns it.
        """
        view = self.view()
        owned = self._owned.get((topic_id, partition))
        if owned is None:
            owned = self._owned[topic_id, partition] = self._check_owned(view, topic_id, partition)
        return owned

    def named(self, name: str) -> Topic:
        """Return a topic by its name. Raises UnknownTopicOrPartition if the view does not have it."""
        topic = self.view().topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"no topic {name}")
        return topic

    async def soon(self, find: Callable[[], Topic]) -> Topic:
        """Return the result of ``find``, with this view or one of the next; after LATE_S, raises its error."""
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

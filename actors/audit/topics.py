"""Which topic a name meant at a time, as one process saw it: topics are deleted and created again."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from muster.placement.view import Topic

KEPT_MS = 3_600_000


class TopicHistory:
    """Remembers earlier topics for an hour. Times are ms since the epoch by this process's clock."""

    def __init__(self) -> None:
        self._topics: Mapping[str, Topic] = {}
        self._earlier: dict[str, list[tuple[int, UUID]]] = {}
        """By name: until when it meant that topic."""

    def follow(self, topics: Mapping[str, Topic], now_ms: int) -> None:
        """From now on, there are these topics."""
        for name, topic in self._topics.items():
            if name not in topics or topics[name].topic_id != topic.topic_id:
                self._earlier.setdefault(name, []).append((now_ms, topic.topic_id))
        for name, known in list(self._earlier.items()):
            if known[-1][0] + KEPT_MS < now_ms:
                del self._earlier[name]
        self._topics = topics

    def id_at(self, name: str, at_ms: int) -> UUID | None:
        """None if there was no such topic, or that is forgotten."""
        for until_ms, topic_id in self._earlier.get(name, ()):
            if at_ms < until_ms:
                return topic_id
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

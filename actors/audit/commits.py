"""Offsets passed by the commits of a coordinator's groups, collected for the audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from muster.actors.audit.outbox import MAX_ITEMS, Batch, Outbox
from muster.actors.group.events import OffsetsCommitted

CommitKey = tuple[str, str, UUID, int]
"""Group, topic, its id, partition."""


class Step(NamedTuple):
    """A committed offset was replaced."""

    before: int | None
    """The previous offset; None if there was none."""
    offset: int
    by_member: bool
    """Whether it was in a generation of the group; else by an admin tool, a mirror or a consumer with assign()."""
    at_ms: int
    """When the last commit was seen, ms since the epoch by the coordinator's clock."""

    def then(self, later: Step) -> Step | None:
        """Both as one step: of consecutive forward commits only the ends matter. None if they cannot be merged."""
        forward = self.before is not None and self.before <= self.offset <= later.offset
        if not forward or later.before != self.offset or later.by_member != self.by_member:
            return None
        return Step(self.before, later.offset, self.by_member, later.at_ms)


class CommitSteps:
    """Observes the events of one coordinator. ``topic_id_of``: the id of the topic with that name now."""

    kinds = (OffsetsCommitted,)

    def __init__(self, name: str, topic_id_of: Callable[[str], UUID | None]) -> None:
        self._outbox: Outbox[CommitKey, Step] = Outbox(name)
        self._topic_id_of = topic_id_of
        self._growing: dict[tuple[str, str, int], _Growing] = {}
        """The last step of each group, topic and partition, which the next commit may extend: a third of the time that
        merging takes. A topic that was created again has no commits, so its first one begins another step."""

    def observe(self, event: OffsetsCommitted, now_ms: int) -> None:
        """Take an event, one of ``kinds``."""
        if self._outbox.is_dropping:
            return
        group, by_member = event.group, event.generation is not None
        for topic, partition, before, offset in event.partitions:
            key = (group, topic, partition)
            step = self._growing.get(key)
            if step is not None:
                start, is_alike = step.before, step.by_member == by_member
                if step.offset == before and start is not None and start <= before <= offset and is_alike:
                    step.offset, step.at_ms = offset, now_ms  # the commit only moves the end: see Step.then
                    continue
                self._end(key, step)
            self._growing[key] = _Growing(self._topic_id_of(topic), before, offset, by_member, now_ms)
        if len(self._growing) > MAX_ITEMS:
            self._end_all()

    def take(self, session: str, received: int) -> Batch[CommitKey, Step]:
        """Hand over a batch: see :meth:`Outbox.take`."""
        self._end_all()
        return self._outbox.take(session, received)

    def _end_all(self) -> None:
        growing, self._growing = self._growing, {}
        for key, step in growing.items():
            self._end(key, step)

    def _end(self, key: tuple[str, str, int], step: _Growing) -> None:
        group, topic, partition = key
        if step.topic_id is not None:
            self._outbox.add((group, topic, step.topic_id, partition), step.ended())


@dataclass(slots=True)
class _Growing:
    """A step that may go further."""

    topic_id: UUID | None
    before: int | None
    offset: int
    by_member: bool
    at_ms: int

    def ended(self) -> Step:
        return Step(self.before, self.offset, self.by_member, self.at_ms)

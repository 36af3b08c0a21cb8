"""What a coordinator collects for the audit: the offsets that its groups' commits went past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from muster.actors.audit.outbox import MAX_ITEMS, Batch, Outbox
from muster.actors.group.events import Event, OffsetsCommitted

CommitKey = tuple[str, str, int]
"""Group, topic, partition."""


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
    """Observes the events of one coordinator."""

    def __init__(self, name: str) -> None:
        self._outbox: Outbox[CommitKey, Step] = Outbox(name)
        self._growing: dict[CommitKey, _Growing] = {}
        """The last step of each key, which the next commit may extend: a third of the time that merging takes."""

    def observe(self, event: Event, now_ms: int) -> None:
        if not isinstance(event, OffsetsCommitted) or self._outbox.is_dropping:
            return
        group, by_member = event.group, event.by_member
        for topic, partition, before, offset in event.partitions:
            key = (group, topic, partition)
            step = self._growing.get(key)
            if step is not None and step.reaches(before, offset, by_member):
                step.offset, step.at_ms = offset, now_ms
                continue
            if step is not None:
                self._outbox.add(key, step.ended())
            self._growing[key] = _Growing(before, offset, by_member, now_ms)
        if len(self._growing) > MAX_ITEMS:
            self._end_all()

    def take(self, session: str, received: int) -> Batch[CommitKey, Step]:
        """As :meth:`Outbox.take`."""
        self._end_all()
        return self._outbox.take(session, received)

    def _end_all(self) -> None:
        growing, self._growing = self._growing, {}
        for key, step in growing.items():
            self._outbox.add(key, step.ended())


@dataclass(slots=True)
class _Growing:
    """A step that may go further."""

    before: int | None
    offset: int
    by_member: bool
    at_ms: int

    def reaches(self, before: int | None, offset: int, by_member: bool) -> bool:
        """Whether a commit only moves its end: see :meth:`Step.then`."""
        return (
            self.offset == before
            and self.before is not None
            and self.before <= before <= offset
            and self.by_member == by_member
        )

    def ended(self) -> Step:
        return Step(self.before, self.offset, self.by_member, self.at_ms)

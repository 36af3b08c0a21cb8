"""What a coordinator collects for the audit: the offsets that its groups' commits went past."""

from __future__ import annotations

from typing import NamedTuple

from muster.actors.audit.outbox import Batch, Outbox
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

    def then(self, later: Step) -> Step | None:
        """Both as one step: of consecutive forward commits only the ends matter. None if they cannot be merged."""
        forward = self.before is not None and self.before <= self.offset <= later.offset
        if not forward or later.before != self.offset or later.by_member != self.by_member:
            return None
        return Step(self.before, later.offset, self.by_member)


class CommitSteps:
    """Observes the events of one coordinator."""

    def __init__(self, name: str) -> None:
        self._outbox: Outbox[CommitKey, Step] = Outbox(name)

    def observe(self, event: Event, now_ms: int) -> None:
        if isinstance(event, OffsetsCommitted):
            for topic, partition, before, offset in event.partitions:
                self._outbox.add((event.group, topic, partition), Step(before, offset, event.by_member))

    def take(self, session: str, received: int) -> Batch[CommitKey, Step]:
        """As :meth:`Outbox.take`."""
        return self._outbox.take(session, received)

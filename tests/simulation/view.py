"""View that an invariant may inspect."""

from __future__ import annotations

from typing import Any

from muster.actors.group.coordinator import Coordinator
from muster.actors.group.expiry import EXPIRY_TIMER
from muster.actors.group.types import GroupId
from tests.simulation.actor import Actor
from tests.simulation.log import SimulatedLog
from tests.simulation.promises import Incarnation, Promises


class View:
    """The coordinator from inside, and what the world knows of its past."""

    def __init__(self, actor: Actor, promises: Promises) -> None:
        self.actor = actor
        self.promises = promises
        self.walk_due_ms: int | None = None
        """When the walk for expired offsets was due, before the step."""

    @property
    def core(self) -> Coordinator:
        assert self.actor.core is not None
        return self.actor.core

    @property
    def log(self) -> SimulatedLog:
        return self.actor.log

    @property
    def timers(self) -> Any:
        """muster.actors.group.timers.Timers."""
        return self.core._shard.timers

    def expiry_walk_ms(self) -> int | None:
        """When the walk for expired offsets is due, after the step."""
        due_ms: int | None = self.timers.get(EXPIRY_TIMER)
        return due_ms

    def incarnation(self, group: GroupId) -> Incarnation:
        return group, self.log.deletions[group]

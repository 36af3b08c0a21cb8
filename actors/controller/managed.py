"""State of each actor that the controller manages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from muster.actors.controller.standbys import ActiveStandby
from muster.actors.controller.state import ActorEvent, ActorState, IllegalMove, state_after
from muster.actors.runtime.started import Started
from muster.placement.view import Endpoint


@dataclass(slots=True)
class Managed:
    """One actor: how to create it, and its state."""

    name: str
    make: Callable[[str | None], Any]
    """Returns a handle of the named actor, which is created if needed, on the given node if any and if it can be."""
    many: bool = False
    """Whether it is one of many of its kind, which take turns to start."""
    is_role: bool = False
    """Whether it is a :class:`muster.actors.serving.actor.RoleActor`, in whose place a standby can serve."""
    node_id: str | None = None
    """The node that it was moved to."""
    handle: Any = None
    state: ActorState = ActorState.PENDING_CREATION
    started: Started | None = None
    process: tuple[int, str] | None = None
    """Pid and node of the process that last responded to a ping; it may still be starting."""
    leaves: bool = False
    """Whether it is about to stop: see :attr:`muster.placement.view.Broker.leaves`."""
    down_since_s: float = 0.0
    """By time.monotonic, when it served last."""
    standby_pid: int | None = None
    """The standby on its node at that time: a later one has none of its sockets."""
    starts: int = 0
    error: str | None = None
    active_standby: ActiveStandby | None = None
    """The standby that serves in its place, until it has taken over itself."""
    covering: asyncio.Task[None] | None = None

    def move(self, event: ActorEvent) -> bool:
        """Enter the state after the event. Returns whether it is another one. Raises IllegalMove."""
        try:
            before, self.state = self.state, state_after(self.state, event)
        except IllegalMove as error:
            raise IllegalMove(f"{self.name}: {error}") from None
        return self.state is not before

    @property
    def is_alive(self) -> bool:
        return self.state is ActorState.ALIVE

    @property
    def endpoint(self) -> Endpoint | None:
        """Where its requests are sent now."""
        if self.active_standby is not None:
            return self.active_standby.started.endpoint
        return self.started.endpoint if self.started and self.is_alive else None

    @property
    def serves(self) -> bool:
        return self.is_alive or self.active_standby is not None


def numbers(kind: str, names: Collection[str]) -> set[int]:
    """Return the numbers of the actors of that kind."""
    return {int(match[1]) for name in names if (match := re.fullmatch(rf"{kind}-(\d+)", name))}

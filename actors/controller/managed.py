"""What the controller knows of each actor that it keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster.actors.controller.standbys import ActiveStandby
from muster.actors.runtime.started import Started
from muster.placement.view import Endpoint


@dataclass(slots=True)
class Managed:
    """One actor: how to make it, and how it is."""

    name: str
    make: Callable[[str | None], Any]
    """Creates the named actor, on that node if it is one and can take it, or gives the handle of the one there is."""
    many: bool = False
    """One of many of its kind: they take turns to start."""
    partition: int | None = None
    """Of ``__consumer_offsets``, if it is an offsets actor."""
    node_id: str | None = None
    """Where it was moved to."""
    handle: Any = None
    state: str = "starting"
    """starting, alive, restarting, failed or stopped."""
    started: Started | None = None
    process: tuple[int, str] | None = None
    """Pid and node of the process that answered last; it may still start."""
    starts: int = 0
    error: str | None = None
    active_standby: ActiveStandby | None = None
    """What serves instead of it, until it has taken over itself."""
    covering: asyncio.Task[None] | None = None

    @property
    def endpoint(self) -> Endpoint | None:
        """Where its requests go now."""
        if self.active_standby is not None:
            return self.active_standby.started.endpoint
        return self.started.endpoint if self.started and self.state == "alive" else None

    @property
    def serves(self) -> bool:
        return self.state == "alive" or self.active_standby is not None

"""The table ``lifecycle``: when each actor was lost, started, served, moved and stopped, as another process saw it.

The controller reports all actors and itself. Gateways report when the controller stops responding, and when it responds
again. For an ``offsets-<p>``, ``transactions-<p>`` or ``log-<i>``, the rows are about its role: a standby that serves
in its place counts as serving.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any

from muster.actors.controller.managed import Managed
from muster.actors.runtime.event_writer import Add

CONTROLLER = "controller"
_FOUND = "found by a new controller"


class Event(Enum):
    """Column ``event``."""

    STARTING = "starting"
    """A process was requested to serve."""
    SERVING = "serving"
    LOST = "lost"
    MOVED = "moved"
    """Its process is about to be ended, to serve on another node."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Server:
    """The process that serves for an actor."""

    pid: int | None
    node_id: str | None
    epoch: int | None = None
    """Leader epoch of a coordinator's partition, actor epoch of a log actor, controller epoch of the controller."""
    standby: str | None = None
    """The standby whose process this is; None: it is the actor's own."""


_UNKNOWN = Server(None, None)


@dataclass(slots=True)
class _Life:
    """Last report on an actor."""

    server: Server | None = None
    starting: tuple[str | None] | None = None
    """Its own process was requested to serve; holds why it did not the last time. None: not requested yet."""


class Lifecycle:
    """Reports the changes of actors, each once. ``now_ms`` is the wall clock in ms."""

    def __init__(self, add: Add, now_ms: Callable[[], int], seen_by: str = CONTROLLER) -> None:
        self._add = add
        self._now_ms = now_ms
        self._seen_by = seen_by
        self._lives: dict[str, _Life] = {}
        self._found: set[str] = set()

    def found(self, names: Collection[str]) -> None:
        """Record these actors as a predecessor's: those that serve did not have to be started."""
        self._found.update(names)

    def starting(self, managed: Managed) -> None:
        """Report that a process of the actor was requested to serve; again only if it cannot, for a new reason."""
        life, starting = self._life(managed.name), (managed.error,)
        if life.starting != starting and managed.name not in self._found:
            life.starting = starting
            self._record(managed.name, Event.STARTING, _UNKNOWN, managed.error)

    def see(self, managed: Managed, reason: str | None = None) -> None:
        """Another process than before, or none, may serve for the actor now; ``reason`` says why."""
        life, server = self._life(managed.name), server_of(managed)
        before, life.server = life.server, server
        if server == before:
            return
        if server is None or server.standby is None:
            life.starting = None
        if server is None:
            self._record(managed.name, Event.LOST, before or _UNKNOWN, reason)
        else:
            self._record(managed.name, Event.SERVING, server, self._why(managed.name, before, server))

    def moves(self, managed: Managed, node_id: str) -> None:
        """Record that the actor is about to be ended, to serve on that node: the next events are no loss."""
        life = self._life(managed.name)
        if life.server is not None:
            self._record(managed.name, Event.MOVED, life.server, f"to node {node_id}")
            life.server = life.starting = None

    def stopped(self, managed: Managed) -> None:
        """Record that the actor was ended on purpose, and is no longer managed."""
        life = self._lives.pop(managed.name, None)
        if life is not None:
            self._record(managed.name, Event.STOPPED, life.server or _UNKNOWN, None)

    def controller(self, event: Event, server: Server, reason: str | None = None) -> None:
        """Report the controller."""
        self._record(CONTROLLER, event, server, reason)

    def _life(self, name: str) -> _Life:
        return self._lives.setdefault(name, _Life())

    def _why(self, name: str, before: Server | None, server: Server) -> str | None:
        is_found = name in self._found
        self._found.discard(name)
        if server.standby is not None:
            return f"{server.standby} serves in its place"
        if before is not None and before.standby is not None:
            return f"took over from {before.standby}"
        return _FOUND if is_found else None

    def _record(self, actor: str, event: Event, server: Server, reason: str | None) -> None:
        row: dict[str, Any] = {
            "ts": self._now_ms(),
            "actor": actor,
            "kind": actor.partition("-")[0],
            "event": event.value,
            "seen_by": self._seen_by,
            "node_id": server.node_id,
            "epoch": server.epoch,
            "pid": server.pid,
            "reason": reason,
        }
        self._add(row)


class ControllerSeen:
    """The controller as seen by a client that polls it: reports changes only, and none before its first response."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._server: Server | None = None
        self._is_away = False

    def answered(self, epoch: int) -> None:
        """Record a response of the controller, under that controller epoch."""
        self._server = Server(None, None, epoch)
        if self._is_away:
            self._is_away = False
            self._lifecycle.controller(Event.SERVING, self._server)

    def silent(self, reason: str) -> None:
        """Record that the controller did not respond."""
        if self._server is not None and not self._is_away:
            self._is_away = True
            self._lifecycle.controller(Event.LOST, self._server, reason)


def server_of(managed: Managed) -> Server | None:
    """Return the process that serves for the actor now."""
    active_standby, started = managed.active_standby, managed.started
    if active_standby is not None:
        standby = active_standby.standby
        return Server(standby.pid, standby.node_id, active_standby.started.epoch, standby.name)
    if started is None or not managed.is_alive:
        return None
    return Server(started.pid, started.node_id, started.epoch if started.epoch >= 0 else None)

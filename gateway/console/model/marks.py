"""Marks on curves: faults, ends of actors, rebalances; what happened when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from muster.gateway.console.model.snapshot import ActorRow, FaultRow
from muster.gateway.console.model.text import shortened

FAULT, ACTOR, REBALANCE = "fault", "actor", "rebalance"
MAX_MARKS = 500
_SAME_MS = 3_000
ALIVE = "alive"


class Mark(NamedTuple):
    """One moment, and its text."""

    at_ms: int
    kind: str
    text: str
    group: str | None = None
    subject: str = ""
    """One subject has one mark at a time, whatever the texts: of two sources, the first one that knows is right."""


class Marks:
    """Faults and changes of actors in the last hour, derived from what snapshots show, or from events."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []
        self._faults: dict[str, FaultRow] | None = None
        self._actors: dict[str, tuple[str, int | None]] | None = None

    def add(self, mark: Mark) -> None:
        """Keep a mark, unless one of the same kind, and of the same text or subject, is there within some seconds."""
        for other in reversed(self._marks[-20:]):
            is_same = other.text == mark.text or (mark.subject and other.subject == mark.subject)
            if other.kind == mark.kind and is_same and abs(other.at_ms - mark.at_ms) < _SAME_MS:
                return
        self._marks.append(mark)
        self._marks.sort(key=lambda mark: mark.at_ms)  # of one millisecond, as they came
        del self._marks[:-MAX_MARKS]

    def saw_faults(self, faults: Iterable[FaultRow], now_ms: int) -> None:
        """Compare the faults in force with those before."""
        current = {fault.id: fault for fault in faults}
        known = self._faults or {}
        for fault in current.values():
            if fault.id not in known:
                self.add(fault_mark(fault.injected_ms or now_ms, fault.fault, fault.actor))
        for fault_id, fault in known.items():
            if fault_id not in current:
                self.add(fault_mark(now_ms, fault.fault, fault.actor, is_end=True))
        self._faults = current

    def saw_actors(self, actors: Iterable[ActorRow], now_ms: int) -> None:
        """Compare states and pids with those before."""
        current = {actor.name: (actor.state, actor.pid) for actor in actors}
        for name, (state, pid) in current.items():
            before = (self._actors or {}).get(name)
            if before is None:
                continue
            if (state != before[0] and state != ALIVE) or (state == ALIVE and pid != before[1]):
                self.add(actor_mark(now_ms, name, state))
        self._actors = current

    def forget(self, before_ms: int) -> None:
        """Remove marks of before that time."""
        self._marks = [mark for mark in self._marks if mark.at_ms >= before_ms]

    def since(self, since_ms: int = 0) -> Sequence[Mark]:
        """Return the marks from that time on, in order of time."""
        return [mark for mark in self._marks if mark.at_ms >= since_ms]


def actor_mark(at_ms: int, name: str, state: str) -> Mark:
    """Return the mark of an actor that begins to serve, or is in another state."""
    is_alive = state == ALIVE
    text = f"{name} serves" if is_alive else f"{name} is {state}"
    return Mark(at_ms, ACTOR, text, subject=f"{name} {ALIVE if is_alive else ''}")


def fault_mark(at_ms: int, fault: Any, actor: str | None, *, is_end: bool = False) -> Mark:
    """Return the mark of a fault that begins or ends."""
    text = fault_text(fault, actor)
    return Mark(at_ms, FAULT, f"end of {text}" if is_end else text)


def fault_text(fault: Any, actor: str | None = None) -> str:
    """Return a fault in a few words: ``kill offsets-7``, ``error NOT_COORDINATOR on Heartbeat of group orders``."""
    action = str(fault.get("action", "fault"))
    target = actor or fault.get("actor")
    detail = {
        "error": f" {fault.get('error')}",
        "delay": f" {fault.get('delay_ms')} ms",
        "slow": f" to {fault.get('speed')}",
    }.get(action, "")
    if target:
        return f"{action} {target}{detail}"
    scopes = []
    if api := fault.get("api"):
        scopes.append(f"on {api}")
    for name in ("group", "member", "client_id", "topic", "partition", "gateway"):
        if (value := fault.get(name)) is not None:
            scopes.append(f"{name.replace('_', ' ')} {shortened(str(value), 40)}")
    return f"{action}{detail} {', '.join(scopes)}".strip() if scopes else f"{action}{detail} on all requests"

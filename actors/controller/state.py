"""States of the actors that the controller manages, and of the nodes that they are on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ActorState(Enum):
    """Names are those of Ray's states of actors where they mean the same; values are what ``muster status`` shows."""

    PENDING_CREATION = "starting"
    """It has never served, as far as this controller knows."""
    ALIVE = "alive"
    """Its process serves."""
    RESTARTING = "restarting"
    """Its process has ended, or counts as dead, and another one is made to serve."""
    FAILED = "failed"
    """Muster's own: its process cannot serve, and says why. It is tried again after a pause."""
    DEAD = "stopped"
    """It was ended on purpose. Only one that is moved serves again."""


class ActorEvent(Enum):
    """Reasons for another state."""

    SERVES = "its process serves"
    FAILS = "its process cannot serve"
    IS_LOST = "its process has ended, counts as dead, or is made anew"
    STOPS = "it was ended on purpose"


_PENDING, _ALIVE, _RESTARTING, _FAILED, _DEAD = ActorState
_SERVES, _FAILS, _IS_LOST, _STOPS = ActorEvent
MOVES: Mapping[ActorState, Mapping[ActorEvent, ActorState]] = {
    _PENDING: {_SERVES: _ALIVE, _FAILS: _FAILED, _IS_LOST: _RESTARTING, _STOPS: _DEAD},
    _ALIVE: {_FAILS: _FAILED, _IS_LOST: _RESTARTING, _STOPS: _DEAD},
    _RESTARTING: {_SERVES: _ALIVE, _FAILS: _FAILED, _IS_LOST: _RESTARTING, _STOPS: _DEAD},
    _FAILED: {_IS_LOST: _RESTARTING, _STOPS: _DEAD},
    _DEAD: {_IS_LOST: _RESTARTING},
}
"""Legal moves, and the state after each."""


class IllegalMove(AssertionError):
    """An event that cannot be in a state: ``MOVES`` does not have it."""


def state_after(state: ActorState, event: ActorEvent) -> ActorState:
    """Return the state after the event. Raises IllegalMove."""
    after = MOVES[state].get(event)
    if after is None:
        raise IllegalMove(f"{event.value}, while it is {state.value}")
    return after


class NodeState(Enum):
    """Values are what ``muster status`` shows."""

    ALIVE = "alive"
    DRAINING = "draining"
    """It gets no more actors, and still has some."""
    DRAINED = "drained"
    DEAD = "dead"

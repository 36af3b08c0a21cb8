"""The states of actors: which event leads where, and which is a mistake."""

from __future__ import annotations

from itertools import product

import pytest

from muster.actors.controller.managed import Managed
from muster.actors.controller.state import ActorEvent, ActorState, IllegalMove

P, A, R, F, D = ActorState
EXPECTED = {
    #         SERVES, FAILS, IS_LOST, STOPS
    P: (A, F, R, D),
    A: (None, F, R, D),
    R: (A, F, R, D),
    F: (None, None, R, D),
    D: (None, None, R, None),
}


@pytest.mark.parametrize(("before", "event"), list(product(ActorState, ActorEvent)), ids=lambda each: each.name)
def test_every_event_in_every_state(before: ActorState, event: ActorEvent) -> None:
    after = EXPECTED[before][list(ActorEvent).index(event)]
    managed = Managed("log-0", lambda _: None, state=before)
    if after is None:
        with pytest.raises(IllegalMove, match=f"log-0: {event.value}, while it is {before.value}"):
            managed.move(event)
        assert managed.state is before
    else:
        assert managed.move(event) is (after is not before)
        assert managed.state is after


def test_an_actor_that_is_restarted_and_moved_serves_again() -> None:
    """Where a supervisor leads it: a failed start, a lost process, a move, the end."""
    managed = Managed("log-0", lambda _: None)
    events = ["FAILS", "IS_LOST", "SERVES", "IS_LOST", "IS_LOST", "SERVES", "STOPS", "IS_LOST", "SERVES", "STOPS"]
    states = []
    for event in events:
        managed.move(ActorEvent[event])
        states.append(managed.state)
    assert states == [F, R, A, R, R, A, D, R, A, D]

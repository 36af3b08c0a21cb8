"""The tables of docs/group-coordinator.md: the behaviour of the code, determined by playing.

``python -m tests.scenarios docs`` rewrites them; tests/scenarios/test_state_tables.py fails when they are outdated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from kio.schema.errors import ErrorCode

from muster.actors.group.messages import Request
from muster.actors.group.state import MAY_COME_FROM, Group, GroupState
from muster.gateway.docs.markdown import table
from tests.group.driver import RANGE, ROUNDROBIN, Driver, beat, commit, error_of, join, leave, sync
from tests.scenarios.core_world import CoreWorld
from tests.scenarios.language import load
from tests.scenarios.play import play
from tests.scenarios.suites import CORE, differences, paths

PAGE = Path(__file__).resolve().parents[2] / "docs" / "group-coordinator.md"
MARKS = {
    name: (f"<!-- begin {name}: python -m tests.scenarios docs -->", f"<!-- end {name} -->")
    for name in ("transitions", "answers", "differences")
}
Move = tuple[GroupState, GroupState]


@contextmanager
def _recorded() -> Iterator[set[Move]]:
    moves: set[Move] = set()
    really = Group.move

    def move(group: Group, state: GroupState, now_ms: int) -> None:
        moves.add((group.state, state))
        really(group, state, now_ms)

    with patch.object(Group, "move", move):
        yield moves


def moves() -> dict[Move, str]:
    """Every move between states in the core's scenarios, with the title of the shortest scenario that makes it."""
    found: dict[Move, str] = {}
    for path in sorted(paths(CORE), key=lambda path: (path.stat().st_size, path.stem)):
        scenario = load(path)
        with _recorded() as made:
            play(scenario, CoreWorld(scenario))
        for move in made:
            found.setdefault(move, path.stem)
    return found


def legal_moves() -> set[Move]:
    """Return the moves that the state table allows."""
    return {(before, after) for after, allowed in MAY_COME_FROM.items() for before in allowed}


def transitions() -> str:
    """From, to, and the scenario that shows the move."""
    shown = moves()
    order = list(GroupState)
    rows = [
        (before.value, after.value, f"`{shown[before, after]}`")
        for before, after in sorted(legal_moves(), key=lambda move: (order.index(move[0]), order.index(move[1])))
    ]
    return table(("from", "to", "shown by"), rows)


def _group_in(state: GroupState) -> tuple[Driver, str, int]:
    """Return a group in that state; its member (the last one, if none remains) and generation."""
    driver = Driver()
    member = driver.stable()[0]
    generation = 1
    if state is GroupState.EMPTY:
        driver.exchange(leave(member))
    elif state is not GroupState.STABLE:
        driver.send(join(member))
        if state is GroupState.PREPARING_REBALANCE:
            driver = Driver()
            member = driver.stable()[0]
            driver.new_member()
        else:
            generation = 2
    assert driver.group().state is state
    return driver, member, generation


_REQUESTS: dict[str, Callable[[str, int], Request]] = {
    "JoinGroup, a new member (v3)": lambda member, generation: join(version=3),
    "JoinGroup, a new member (v4+)": lambda member, generation: join(),
    "JoinGroup, a member, unchanged": lambda member, generation: join(member),
    "JoinGroup, a member, other protocols": lambda member, generation: join(member, protocols=(RANGE, ROUNDROBIN)),
    "JoinGroup, an id that was never given out": lambda member, generation: join("made-up"),
    "SyncGroup": lambda member, generation: sync(member, generation, {}),
    "SyncGroup, of another generation": lambda member, generation: sync(member, generation + 7),
    "Heartbeat": lambda member, generation: beat(member, generation),
    "Heartbeat, of another generation": lambda member, generation: beat(member, generation + 7),
    "LeaveGroup": lambda member, generation: leave(member),
    "OffsetCommit": lambda member, generation: commit({("t", 0): 1}, member_id=member, generation=generation),
    "OffsetCommit, of another generation": lambda member, generation: commit(
        {("t", 0): 1}, member_id=member, generation=generation + 7
    ),
    "OffsetCommit, generation -1 and no member": lambda member, generation: commit({("t", 0): 1}),
}


def _response(state: GroupState, make: Callable[[str, int], Request]) -> str:
    driver, member, generation = _group_in(state)
    group = driver.group()
    before = group.generation
    token = driver.send(make(member, generation))
    said = "waits" if token in driver.waiting() else _name(error_of(driver.response(token)))
    went_on = group.state is not state or group.generation != before
    return f"{said}; {group.state.value}" if went_on else said


def _name(error: ErrorCode) -> str:
    return "ok" if error is ErrorCode.none else error.name.upper()


def responses() -> str:
    """For each kind of request and each state, the first response and the resulting state."""
    states = [state for state in GroupState if state is not GroupState.DEAD]
    rows = [(what, *(_response(state, make) for state in states)) for what, make in _REQUESTS.items()]
    return table(("request", *(state.value for state in states)), rows)


def accepted_differences() -> str:
    """Scenario, request and reason of every difference from Kafka."""
    rows = [(f"`{name}`", f"`{line}`", reason) for name, line, reason in dict.fromkeys(differences())]
    return table(("scenario", "step", "why Muster differs"), rows)


def rendered(page: str) -> str:
    """Return the page with current tables."""
    makers = {"transitions": transitions, "answers": responses, "differences": accepted_differences}
    for name, (begin, end) in MARKS.items():
        before, rest = page.split(begin)
        after = rest.split(end)[1]
        page = f"{before}{begin}\n{makers[name]()}\n{end}{after}"
    return page

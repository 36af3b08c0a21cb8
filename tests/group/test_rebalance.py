"""Rebalances: responses by state, deadlines, sessions, leaving. Numbers: the behaviour table's cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.errors import translate
from muster.actors.group.events import AssignmentStored, GenerationCompleted, MemberExpired, MemberLeft, Removal
from muster.actors.group.messages import NO_MEMBER
from muster.actors.group.state import MAY_COME_FROM, Group, GroupState, IllegalMove
from muster.actors.group.types import GroupId
from tests.group.driver import Driver, beat, commit, error_of, join, leave, sync
from tests.group.transactions.logged import logged

Make = Callable[..., Driver]
E = ErrorCode


def _completing(driver: Driver, members: int = 2, **options: Any) -> list[str]:
    """Make a group in CompletingRebalance, generation 1; return ids, the leader first."""
    tokens = [driver.new_member(**options) for _ in range(members)]
    return [response.member_id for response in driver.responses_to(tokens)]


def test_states_move_only_as_the_table_says() -> None:
    for before in GroupState:
        for after in GroupState:
            group = Group(id=GroupId("g"), state_since_ms=0, state=before)
            if before in MAY_COME_FROM[after]:
                group.move(after, 5)
                assert (group.state, group.state_since_ms) == (after, 5)
            else:
                with pytest.raises(IllegalMove):
                    group.move(after, 5)


def test_18_who_does_not_rejoin_in_time_is_removed(driver: Driver) -> None:
    (a,) = driver.stable()
    token = driver.new_member()
    for _ in range(59):
        driver.advance(1000)
        driver.send(beat(a, 1))
    assert token in driver.waiting()
    driver.advance(1000)
    response = driver.response(token)
    assert (response.generation_id, [m.member_id for m in response.members]) == (2, [response.member_id])
    assert driver.error(beat(a, 1)) is E.unknown_member_id
    (expired,) = [event for event in driver.events if isinstance(event, MemberExpired)]
    assert (expired.member_id, expired.client_id, expired.cause) == (a, "c", Removal.REBALANCE_TIMEOUT)


def test_static_members_without_a_rebalance_timeout_do_not_spin(driver: Driver) -> None:
    driver.stable_static("i", "j", rebalance_ms=1, session_ms=10_000)
    driver.exchange(leave(("", "j")))
    ticks = 0
    while driver.group().state is GroupState.PREPARING_REBALANCE:
        driver.advance((driver.core.next_deadline_ms() or 0) - driver.now_ms)
        ticks += 1
    assert 1 < ticks <= 102


def test_25_assignment_that_cannot_be_written(make: Make) -> None:
    driver = make(auto=False)
    leader, follower = _completing(driver)
    driver.write_all()
    tokens = [driver.park(sync(follower, 1)), driver.park(sync(leader, 1, {follower: b"f"}))]
    driver.fail(E.not_enough_replicas)
    assert [driver.response(token).error_code for token in tokens] == [E.coordinator_not_available] * 2
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    assert [m.assignment for m in driver.group().members.values()] == [b"", b""]
    assert driver.replayed() == driver.core.hard_state, "the write was taken back"


# Sessions


def test_a_session_that_ended_while_parked_begins_again_with_the_failure(driver: Driver) -> None:
    leader, follower = _completing(driver)
    driver.park(sync(follower, 1))
    driver.advance(9000)
    driver.send(beat(leader, 1))
    driver.advance(2000)
    driver.send(join(version=3))
    driver.send(beat(leader, 1))
    driver.advance(9999)
    assert follower in driver.group().members
    driver.advance(1)
    assert follower not in driver.group().members


# Leaving


def test_40_a_batch_of_leaves_starts_one_rebalance(driver: Driver) -> None:
    first = driver.new_member()
    driver.park(join(instance="I"))
    driver.park(join(instance="stay"))
    driver.advance(6000)
    a = driver.response(first).member_id
    driver.sync_all(
        [driver.responses[t] for t in driver.requests if getattr(driver.responses[t], "generation_id", -1) == 1]
    )
    started = len(driver.events)
    response = driver.exchange(leave(a, ("", "I"), ("", "J"), ("x", None), ("S", "I")))
    assert response.error_code is E.none
    assert [member.error_code for member in response.members] == [
        E.none,
        E.none,
        E.unknown_member_id,
        E.unknown_member_id,
        E.unknown_member_id,
    ]
    assert [member.member_id for member in response.members] == [a, "", "", "x", "S"]
    names = [type(event).__name__ for event in driver.events[started:]]
    assert names == ["MemberLeft", "MemberLeft", "RebalanceStarted"]
    driver.exchange(leave(("", "stay")))
    assert (driver.group().state, driver.group().generation) == (GroupState.EMPTY, 2)


def test_requests_of_a_member_that_is_removed_are_answered(driver: Driver) -> None:
    leader, follower = _completing(driver)
    parked_sync = driver.park(sync(follower, 1))
    driver.exchange(leave(follower))
    assert driver.response(parked_sync).error_code is E.unknown_member_id
    parked_join = driver.park(join(version=3))
    member = next(m for m in driver.group().members if m != leader)
    driver.exchange(leave(member))
    response = driver.response(parked_join)
    assert (response.error_code, response.member_id) == (E.unknown_member_id, NO_MEMBER)
    assert [event.member_id for event in driver.events if isinstance(event, MemberLeft)] == [follower, member]


# Responses wait for the log


def test_responses_without_records_wait_for_earlier_records(make: Make) -> None:
    driver = make()
    (a,) = driver.stable()
    driver.auto = False
    committed = driver.park(commit({("t", 0): 1}, member_id=a, generation=1))
    left = driver.park(leave("x"))
    assert driver.error(beat("x", 1)) is E.unknown_member_id, "refusals do not wait"
    assert driver.error(beat(a, 1)) is E.none, "nor do heartbeats, unless for the group's own record"
    driver.write_all()
    assert error_of(driver.response(committed)) is E.none
    assert driver.error(leave("x")) is error_of(driver.response(left)) is E.unknown_member_id


def test_a_failed_write_fails_what_was_decided_after_it(make: Make) -> None:
    driver = make()
    (a,) = driver.stable()
    driver.auto = False
    tokens = [driver.park(commit({("t", 0): n}, member_id=a, generation=1)) for n in (1, 2)]
    tokens.append(driver.park(leave("x")))
    driver.fail(E.not_leader_or_follower)
    assert {error_of(driver.response(token)) for token in tokens} == {E.not_coordinator}
    assert driver.offset("t", 0) == -1


@pytest.mark.parametrize(
    ("log", "client"), [(3, 15), (19, 15), (7, 15), (6, 16), (56, 16), (10, -1), (18, -1), (4, -1), (13, 14), (22, 22)]
)
def test_what_a_failed_append_means_to_a_client(log: int, client: int) -> None:
    assert translate(ErrorCode(log)) == client


def test_events_have_a_duration(driver: Driver) -> None:
    (a,) = _completing(driver, 1)
    driver.advance(40)
    driver.exchange(sync(a, 1))
    (completed,) = [event for event in driver.events if isinstance(event, GenerationCompleted)]
    (stored,) = [event for event in driver.events if isinstance(event, AssignmentStored)]
    assert (completed.generation, completed.members, completed.duration_ms) == (1, 1, 3000)
    assert (stored.generation, stored.members, stored.duration_ms) == (1, 1, 40)


def test_the_last_confirmation_covers_earlier_writes(make: Make) -> None:
    driver = make(auto=False)
    tokens = [driver.park(commit({("t", 0): n})) for n in (1, 2)]
    driver.log += [entry for outcome in driver.unwritten for entry in logged(outcome)]
    last = driver.unwritten[-1].write
    assert last is not None
    outcome = driver.core.written(last, driver.now_ms)
    driver.unwritten.clear()
    assert [token for token, _ in outcome.replies] == tokens


def test_an_assignment_of_an_earlier_generation_is_not_given_out(make: Make) -> None:
    driver = make(auto=False)
    leader, follower = _completing(driver)
    driver.write_all()
    driver.park(sync(leader, 1, {leader: b"old"}))
    driver.send(leave(follower))
    token = driver.send(join(leader))
    assert driver.response(token).generation_id == 2
    driver.write_all()
    assert driver.group().state is GroupState.COMPLETING_REBALANCE
    assert driver.group().members[leader].assignment == b""  # type: ignore[index]

"""Leases: when gateways may answer heartbeats, when they must stop, and what that does to sessions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.state import GroupState
from muster.placement.lease import LEASE_MS
from tests.group.driver import Driver, G, beat, commit, error_of, join, leave

Make = Callable[..., Driver]
E = ErrorCode
SESSION_MS = 10_000


@pytest.fixture
def leasing(make: Make) -> Driver:
    """Gateways confirm nothing by themselves."""
    driver = make(heartbeat_lease_enable=True)
    driver.gateways_confirm = False
    return driver


def beats(driver: Driver, *members: str, generation: int = 1) -> None:
    """Each sends a heartbeat to the coordinator itself."""
    for member in members:
        assert driver.error(beat(member, generation)) is E.none


def is_member(driver: Driver, member: str) -> bool:
    return member in driver.group().members


def test_a_heartbeat_in_a_stable_group_comes_with_a_lease(leasing: Driver) -> None:
    first, second = leasing.stable(2)
    assert leasing.leases == []
    beats(leasing, first, second, first)
    assert [(group, member) for _, group, member in leasing.leases] == [(G, first), (G, second), (G, first)]
    assert leasing.revoked == []


def test_none_without_the_property(driver: Driver) -> None:
    (member,) = driver.stable(1)
    beats(driver, member)
    driver.advance(SESSION_MS)
    assert (driver.leases, driver.group().state) == ([], GroupState.EMPTY)


def test_none_in_a_rebalance(leasing: Driver) -> None:
    first, second = leasing.stable(2)
    leasing.park(join(first))
    assert leasing.error(beat(second, 1)) is E.rebalance_in_progress
    assert (leasing.leases, leasing.revoked) == ([], [])


def test_none_while_the_log_does_not_have_the_group_as_it_is(leasing: Driver) -> None:
    """A replaced static member is not yet in the log; commits that are on their way do not matter."""
    _, other = leasing.stable_static("I", "J")
    leasing.auto = False
    leasing.park(commit({("t", 0): 1}, member_id=other, generation=1, instance="J"))
    beats(leasing, other)
    assert len(leasing.leases) == 1
    leasing.park(join(instance="I"))
    waiting = leasing.park(beat(other, 1))
    leasing.write_all()
    assert error_of(leasing.response(waiting)) is E.none
    assert len(leasing.leases) == 1


def test_a_heartbeat_that_is_reported_before_the_confirmation_counts_from_its_own_time(leasing: Driver) -> None:
    """Its session ends before all gateways are sure to have stopped, so that time is not the member's deadline."""
    (member,) = leasing.stable(1)
    beats(leasing, member)
    leasing.advance(SESSION_MS)
    leasing.seen(member, ago_ms=SESSION_MS - 500)
    leasing.confirm(G)
    assert is_member(leasing, member)
    leasing.advance(500)
    assert not is_member(leasing, member)


def test_it_ends_once_and_before_the_group_is_no_longer_stable(leasing: Driver) -> None:
    first, second = leasing.stable(2)
    beats(leasing, first, second)
    leasing.exchange(leave(second))
    assert leasing.revoked == [G]
    assert leasing.group().state is GroupState.PREPARING_REBALANCE
    leasing.advance(1)
    assert leasing.revoked == [G]


def test_it_ends_when_a_static_member_is_replaced(leasing: Driver) -> None:
    (old,) = leasing.stable_static("I")
    beats(leasing, old)
    leasing.exchange(join(instance="I"))
    assert (leasing.revoked, leasing.group().state) == ([G], GroupState.STABLE)


def test_it_ends_when_the_coordinator_resigns(leasing: Driver) -> None:
    (member,) = leasing.stable(1)
    beats(leasing, member)
    leasing.resign()
    assert leasing.revoked == [G]


def test_a_confirmation_after_the_coordinator_has_resigned_removes_no_member(leasing: Driver) -> None:
    """Its session has ended, but the next owner has its registration, and gives it a new one."""
    (member,) = leasing.stable(1)
    beats(leasing, member)
    leasing.advance(SESSION_MS)
    leasing.resign()
    leasing.updates.clear()
    leasing.confirm(G)
    leasing.advance(LEASE_MS)
    assert is_member(leasing, member)
    assert leasing.updates == []


def test_a_session_lasts_from_when_the_gateway_has_seen_the_heartbeat(leasing: Driver) -> None:
    (member,) = leasing.stable(1)
    beats(leasing, member)
    leasing.advance(3000)
    leasing.seen(member, ago_ms=100)
    leasing.advance(SESSION_MS - 101)
    assert leasing.revoked == []
    leasing.advance(1)
    assert leasing.revoked == [G], "what gateways have is waited for"
    leasing.advance(LEASE_MS - 1)
    assert is_member(leasing, member)
    leasing.advance(1)
    assert not is_member(leasing, member)


def test_what_a_gateway_had_not_reported_keeps_the_member(leasing: Driver) -> None:
    (member,) = leasing.stable(1)
    beats(leasing, member)
    leasing.advance(SESSION_MS + 50)
    leasing.seen(member, ago_ms=60)
    leasing.advance(SESSION_MS - 61)
    assert is_member(leasing, member)
    leasing.advance(1)
    assert not is_member(leasing, member), "it had no new lease"


def test_another_members_new_lease_does_not_keep_the_dead_one(leasing: Driver) -> None:
    dead, alive = leasing.stable(2)
    beats(leasing, dead, alive)
    for _ in range(3):
        leasing.advance(3000)
        beats(leasing, alive)
    leasing.advance(1000)
    beats(leasing, alive)
    leasing.advance(LEASE_MS)
    assert (is_member(leasing, dead), is_member(leasing, alive)) == (False, True)


def test_an_old_report_does_not_shorten_a_session(leasing: Driver) -> None:
    (member,) = leasing.stable(1)
    beats(leasing, member)
    leasing.seen(member, ago_ms=5000)
    leasing.advance(SESSION_MS - 1)
    assert leasing.revoked == []


def test_reports_about_others_change_nothing(leasing: Driver) -> None:
    (member,) = leasing.stable(1)
    leasing.seen("nobody")
    leasing.seen(member, group="nope")
    leasing.advance(SESSION_MS)
    assert not is_member(leasing, member)


def test_a_member_expires_once_all_gateways_have_confirmed(leasing: Driver) -> None:
    (member,) = leasing.stable(1)
    beats(leasing, member)
    leasing.advance(SESSION_MS)
    assert is_member(leasing, member)
    leasing.confirm(G)
    leasing.advance(0)
    assert not is_member(leasing, member)


def test_what_is_reported_before_the_confirmation_keeps_the_member(leasing: Driver) -> None:
    (member,) = leasing.stable(1)
    beats(leasing, member)
    leasing.advance(SESSION_MS)
    leasing.seen(member, ago_ms=40)
    leasing.confirm(G)
    leasing.advance(SESSION_MS - 41)
    assert is_member(leasing, member)
    leasing.advance(1)
    assert not is_member(leasing, member)


def test_reports_are_awaited_of_all_whose_lease_has_just_ended(leasing: Driver) -> None:
    """Two sessions end shortly after each other: the first ends the lease, and both are waited for."""
    first, second = leasing.stable(2)
    beats(leasing, first)
    leasing.advance(50)
    beats(leasing, second)
    leasing.advance(SESSION_MS)
    assert (leasing.revoked, is_member(leasing, first), is_member(leasing, second)) == ([G], True, True)
    leasing.advance(LEASE_MS - 51)
    assert (is_member(leasing, first), is_member(leasing, second)) == (True, True)
    leasing.advance(1)
    assert G not in leasing.core.groups or not leasing.group().members


def test_an_older_confirmation_is_not_one_of_a_newer_lease(leasing: Driver) -> None:
    """The group was Stable again, with a new lease, before its gateways had confirmed the end of the old one."""
    (member,) = leasing.stable_static("I")
    beats(leasing, member)
    joined = leasing.exchange(join(instance="I"))
    beats(leasing, joined.member_id)
    leasing.confirm(G)
    leasing.advance(SESSION_MS)
    assert leasing.revoked == [G, G]
    assert is_member(leasing, joined.member_id)
    leasing.confirm(G)
    leasing.advance(0)
    assert not is_member(leasing, joined.member_id)


def test_when_a_member_was_heard(leasing: Driver) -> None:
    first, second = leasing.stable(2)
    began_ms = leasing.now_ms
    leasing.advance(1_000)
    beats(leasing, first)
    leasing.advance(2_000)
    assert leasing.core.heard_ms(G) == {first: began_ms + 1_000, second: began_ms}
    leasing.seen(second, ago_ms=500)
    leasing.seen(first, ago_ms=2_500)  # older than what arrived here
    assert leasing.core.heard_ms(G) == {first: began_ms + 1_000, second: began_ms + 2_500}


def test_nobody_is_heard_of_an_unknown_group_or_before_a_generation(leasing: Driver) -> None:
    assert leasing.core.heard_ms(G) == {}
    leasing.new_member()
    assert leasing.core.heard_ms(G) == {}


def test_a_session_that_waits_for_the_gateways_says_nothing(leasing: Driver) -> None:
    (member,) = leasing.stable(1)
    beats(leasing, member)
    leasing.advance(SESSION_MS)
    assert is_member(leasing, member)
    assert leasing.core.heard_ms(G) == {}

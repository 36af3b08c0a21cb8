"""Registration updates: which clients consume for which group."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.messages import DeleteGroups
from muster.placement.mapping.registration import Kind, Registration, Withdrawal
from tests.group.driver import HOST, Driver, G, assignment, beat, commit, fetch, join, leave, sync

Make = Callable[..., Driver]


def _registered(driver: Driver) -> dict[str, frozenset[tuple[str, int]] | None]:
    """Return the final state of a listener that applies every update."""
    held: dict[str, frozenset[tuple[str, int]] | None] = {}
    for update in driver.updates:
        if isinstance(update, Registration):
            held[update.member_id] = update.partitions
        elif isinstance(update, Withdrawal):
            del held[update.member_id]
    assert held == {r.member_id: r.partitions for r in driver.core.registrations()}
    return held


def test_a_member_is_registered_when_its_generation_completes(driver: Driver) -> None:
    token = driver.new_member(client="billing-1")
    assert driver.updates == []
    driver.advance(3000)
    member = driver.response(token).member_id
    expected = Registration(
        group="g",
        member_id=member,
        kind=Kind.MEMBER,
        client_id="billing-1",
        host=HOST,
        generation=1,
        partitions=None,
        offsets_partition=7,
        epoch=1,
        sequence=1,
        principal="User:ANONYMOUS",
    )
    assert driver.updates == [expected]
    driver.exchange(sync(member, 1, {member: assignment(("t", 0), ("t", 1))}), client="billing-1")
    assert _registered(driver) == {member: frozenset({("t", 0), ("t", 1)})}
    assert driver.updates[-1].sequence == 2


def test_partitions_stay_known_during_a_rebalance(driver: Driver) -> None:
    (a,) = driver.stable()
    token = driver.new_member()
    driver.exchange(join(a))
    b = driver.response(token).member_id
    assert _registered(driver) == {a: {("t", 0)}, b: None}
    driver.park(sync(b, 2))
    driver.exchange(sync(a, 2, {b: assignment(("t", 0))}))
    assert _registered(driver) == {a: frozenset(), b: {("t", 0)}}
    assert {r.generation for r in driver.core.registrations()} == {2}


def test_an_assignment_of_another_type_is_not_read(driver: Driver) -> None:
    (a,) = driver.stable(protocol_type="connect", protocols=(("default", b""),))
    assert _registered(driver) == {a: None}


def test_only_its_own_word_says_that_a_member_left(driver: Driver) -> None:
    """An expelled client (by the end of its session or by an admin) continues to fetch until it knows."""
    own, expelled, expired = driver.stable(3)
    driver.exchange(leave(own))
    driver.exchange(leave(expelled), host="10.9.9.9", client="adminclient-1")
    driver.advance(60_000)
    withdrawn = {s.member_id: s.left for s in driver.updates if isinstance(s, Withdrawal)}
    assert withdrawn == {own: True, expelled: False, expired: False}


def test_members_that_go_are_withdrawn(driver: Driver) -> None:
    a, b = driver.stable(2)
    driver.exchange(leave(a))
    assert set(_registered(driver)) == {b}
    driver.advance(60_000)
    assert _registered(driver) == {}
    assert isinstance(driver.updates[-1], Withdrawal)
    sequences = [update.sequence for update in driver.updates]
    assert sequences == sorted(set(sequences))


def test_a_static_replacement_is_a_withdrawal_and_a_registration(make: Make) -> None:
    driver = make()
    (old,) = driver.stable_static("I")
    partitions = _registered(driver)[old]
    driver.auto = False
    token = driver.park(join(instance="I"))
    assert set(_registered(driver)) == {old}, "the log does not have it yet"
    driver.write_all()
    assert _registered(driver) == {driver.response(token).member_id: partitions}


def test_registrations_come_back_from_the_log(driver: Driver) -> None:
    (a,) = driver.stable()
    (before,) = driver.core.registrations()
    said = len(driver.updates)
    driver.restart()
    (after,) = driver.core.registrations()
    assert (after.member_id, after.partitions, after.host, after.client_id) == (a, before.partitions, HOST, "c")
    assert (after.epoch, len(driver.updates)) == (2, said)
    driver.advance(10_000)
    assert driver.core.registrations() == ()


@pytest.mark.parametrize("outcome", ["written", "refused"])
def test_who_leaves_before_its_replacement_is_written_is_not_registered_under_the_old_id(
    make: Make, outcome: str
) -> None:
    driver = make(auto=False)
    token = driver.park(join(instance="I"))
    driver.write_all()
    (joined,) = driver.responses_to([token])
    driver.send(sync(joined.member_id, 1, {joined.member_id: assignment(("t", 0))}))
    driver.write_all()
    assert set(_registered(driver)) == {joined.member_id}
    driver.park(join(instance="I"))
    driver.send(leave(("", "I")))
    if outcome == "written":
        driver.write_all()
    else:
        driver.fail(ErrorCode.message_too_large)
    assert _registered(driver) == {}


def test_simple_consumers_are_known_by_their_requests_and_expire(make: Make) -> None:
    driver = make(attribution_simple_ttl_ms=60_000)
    driver.exchange(commit({("t", 0): 5}), client="app")
    driver.advance(30_000)
    driver.exchange(commit({("t", 1): 5}), client="app")
    driver.exchange(commit({("t", 1): 6}), client="app")
    me = f"{HOST}/app"
    assert _registered(driver) == {me: {("t", 0), ("t", 1)}}
    assert len([update for update in driver.updates if isinstance(update, Registration)]) == 2, (
        "nothing new, nothing said"
    )
    assert driver.core.registrations()[0].kind is Kind.SIMPLE
    driver.advance(59_999)
    assert set(_registered(driver)) == {me}
    driver.advance(1)
    assert _registered(driver) == {}


def test_tools_and_members_are_not_simple_consumers(driver: Driver) -> None:
    driver.exchange(fetch(everything=True), client="tool")
    (a,) = driver.stable()
    driver.exchange(fetch(("t", 0)), client="tool")
    driver.exchange(commit({("t", 0): 1}, member_id=a, generation=1))
    driver.exchange(beat(a, 1))
    assert set(_registered(driver)) == {a}


def test_a_commit_of_nothing_says_who_reads_for_the_group(driver: Driver) -> None:
    """Also beside members, and for a group that there is not."""
    (a,) = driver.stable()
    driver.exchange(commit({}), client="reader")
    assert set(_registered(driver)) == {a, f"{HOST}/reader"}
    assert _registered(driver)[f"{HOST}/reader"] == set()
    driver.exchange(commit({}, group="unknown"), client="reader")
    assert "unknown" not in driver.core.groups


def test_deleting_the_group_withdraws_its_simple_consumers(driver: Driver) -> None:
    driver.exchange(commit({("t", 1): 5}), client=None)
    assert set(_registered(driver)) == {HOST}
    driver.exchange(DeleteGroups(api_version=2, groups=(G,)))
    assert _registered(driver) == {}

"""Static membership, KIP-345. Numbers: the behaviour table's cases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.messages import NO_MEMBER
from muster.actors.group.state import GroupState
from muster.actors.group.types import MemberId
from tests.group.driver import RANGE, ROUNDROBIN, Driver, beat, join, leave, sync

Make = Callable[..., Driver]
E = ErrorCode


def test_34_a_replacement_disturbs_nobody(driver: Driver) -> None:
    old, other = driver.stable_static("I", "J")
    before = driver.exchange(sync(old, 1)).assignment
    response = driver.exchange(join(instance="I"), client="renamed")
    new = response.member_id
    assert (response.error_code, response.generation_id, response.leader, response.skip_assignment) == (
        E.none,
        1,
        new,
        True,
    )
    assert {member.member_id for member in response.members} == {new, other}
    assert new.startswith("I-")
    assert new != old
    assert driver.error(beat(old, 1, instance="I")) is E.fenced_instance_id
    assert driver.error(beat(old, 1)) is E.unknown_member_id
    assert driver.exchange(sync(new, 1, instance="I")).assignment == before
    assert driver.group().members[new].client_id == "c", "Kafka keeps the client id of the first process"
    assert driver.group().state is GroupState.STABLE
    driver.restart()
    assert driver.error(beat(new, 1, instance="I")) is E.none


def test_37_a_replacement_that_cannot_be_written_is_undone(make: Make) -> None:
    driver = make()
    (old,) = driver.stable_static("I")
    driver.auto = False
    token = driver.park(join(instance="I", session_ms=20_000))
    driver.fail(E.not_enough_replicas)
    response = driver.response(token)
    assert (response.error_code, response.member_id) == (E.coordinator_not_available, NO_MEMBER)
    assert (response.generation_id, response.protocol_name) == (1, "range")
    driver.auto = True
    assert driver.error(beat(old, 1, instance="I")) is E.none
    assert driver.group().members[MemberId(old)].session_timeout_ms == 10_000
    driver.advance(10_000)
    assert driver.group().state is GroupState.EMPTY


@pytest.mark.parametrize("then", ["rebalance", "restart", "leave"])
def test_a_replacement_whose_write_is_overtaken(make: Make, then: str) -> None:
    driver = make()
    old, other = driver.stable_static("I", "J")
    driver.auto = False
    token = driver.park(join(instance="I"))
    if then == "rebalance":
        driver.exchange(join(other, instance="J", protocols=(RANGE, ROUNDROBIN)))
        assert driver.response(token).generation_id == 2, "the rebalance takes it along"
    elif then == "leave":
        driver.send(leave(("", "I")))
        assert driver.response(token).error_code is E.unknown_member_id
    else:
        driver.restart()
        assert old in driver.group().members
    driver.write_all()
    assert driver.waiting() <= {t for t in driver.requests if t > token}


def test_two_replacements_before_the_first_is_written(make: Make) -> None:
    driver = make()
    driver.stable_static("I")
    driver.auto = False
    first = driver.park(join(instance="I"))
    second = driver.park(join(instance="I"))
    assert driver.response(first).error_code is E.fenced_instance_id
    driver.write_all()
    assert driver.response(second).error_code is E.none
    assert driver.response(second).member_id in driver.group().members


def test_a_session_that_ended_while_the_replacement_was_written_begins_again(make: Make) -> None:
    driver = make()
    driver.stable_static("I")
    driver.auto = False
    token = driver.park(join(instance="I"))
    driver.advance(10_001)
    driver.write_all()
    new = driver.response(token).member_id
    driver.advance(9_999)
    assert [*driver.group().members] == [new]
    driver.advance(1)
    assert not driver.group().members


def test_a_replacement_owes_the_sync_that_the_old_process_owed(driver: Driver) -> None:
    tokens = [driver.park(join(instance=instance)) for instance in ("I", "J")]
    leader, follower = (response.member_id for response in driver.responses_to(tokens))
    driver.exchange(sync(leader, 1))
    assert driver.group().state is GroupState.STABLE
    new = driver.exchange(join(instance="J")).member_id
    assert new != follower
    for _ in range(60):
        driver.advance(1000)
        driver.send(beat(leader, 1))
        driver.send(beat(new, 1))
    assert [*driver.group().members] == [leader]


def test_a_replacement_has_the_whole_time_for_the_sync_that_it_owes(make: Make) -> None:
    """Although the old process had nearly used it up, and the log is slow."""
    driver = make()
    tokens = [driver.park(join(instance=instance, rebalance_ms=4_000)) for instance in ("I", "J")]
    leader, _ = (response.member_id for response in driver.responses_to(tokens))
    driver.exchange(sync(leader, 1))
    driver.advance(3_900)
    driver.auto = False
    token = driver.park(join(instance="J", rebalance_ms=4_000))
    driver.advance(200)
    driver.write_all()
    driver.auto = True
    new = driver.response(token).member_id
    driver.advance(3_799)
    driver.send(beat(leader, 1))
    assert new in driver.group().members
    driver.advance(1)
    assert [*driver.group().members] == [leader]

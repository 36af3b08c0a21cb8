"""JoinGroup: ids, arguments, the initial delay, protocols. Numbers: the behaviour table's cases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.codec.records import GroupKey, decode_key, decode_value
from muster.actors.group.events import Cause, RebalanceStarted
from muster.actors.group.messages import ListGroups
from muster.actors.group.protocols import hash_map_bucket, select
from muster.actors.group.state import GroupState
from muster.actors.group.types import Record
from tests.group.driver import RANGE, ROUNDROBIN, Driver, join, leave

Make = Callable[..., Driver]
E = ErrorCode


def test_1_first_join_gets_an_id_and_creates_an_empty_group(make: Make) -> None:
    driver = make(auto=False)
    response = driver.exchange(join(), client="billing")
    assert (response.error_code, response.member_id, response.generation_id) == (
        E.member_id_required,
        "billing-id1",
        -1,
    )
    assert driver.exchange(ListGroups(api_version=5)).groups == ()
    driver.write_all()
    (listed,) = driver.exchange(ListGroups(api_version=5)).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state) == ("g", "", "Empty")
    (record,) = driver.log
    assert isinstance(record, Record)
    key = decode_key(record.key)
    assert isinstance(key, GroupKey)
    assert record.value is not None
    stored = decode_value(key, record.value)
    assert stored == driver.core.hard_state.groups[key.group]
    assert (stored.generation, stored.protocol_type, stored.members) == (0, "", ())


def test_group_whose_record_fails_vanishes_and_hangs_nobody(make: Make) -> None:
    driver = make(auto=False)
    parked = driver.park(join(version=3))
    driver.fail(E.not_enough_replicas)
    assert driver.response(parked).error_code is E.coordinator_not_available
    assert driver.core.groups == {}
    assert driver.core.next_deadline_ms() == 1_000_000 + 600_000


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (join(group=""), E.invalid_group_id),
        (join(protocol_type=""), E.inconsistent_group_protocol),
        (join(protocols=()), E.inconsistent_group_protocol),
        (join(instance="x" * 32_731), E.unknown_server_error),
        (join("m", instance="i"), E.unknown_member_id),
    ],
)
def test_bad_arguments(driver: Driver, bad: object, error: ErrorCode) -> None:
    assert driver.error(bad) is error  # type: ignore[arg-type]


# Initial rebalance delay


@pytest.mark.parametrize(
    ("delay_ms", "rebalance_ms", "joins_at", "completes_at"),
    [
        (3000, 300_000, [0], 3000),
        (3000, 300_000, [0, 1000], 6000),
        (3000, 7000, [0, 1000, 4000, 6500], 7000),
        (3000, 2000, [0, 1000], 3000),
        (0, 60_000, [0], 0),
    ],
)
def test_13_14_initial_delay(
    make: Make, delay_ms: int, rebalance_ms: int, joins_at: list[int], completes_at: int
) -> None:
    driver = make(group_initial_rebalance_delay_ms=delay_ms)
    tokens = []
    for at in joins_at:
        driver.at(at)
        tokens.append(driver.new_member(rebalance_ms=rebalance_ms))
    assert driver.waiting() == set(tokens), "never inside the request, even without delay"
    if completes_at:
        driver.at(completes_at - 1)
        assert driver.waiting() == set(tokens)
    driver.at(completes_at)
    responses = [driver.response(token) for token in tokens]
    assert {response.generation_id for response in responses} == {1}
    assert len(responses[0].members) == len(joins_at)


# Rejoining and protocols


def test_27_rejoin_of_a_stable_group(driver: Driver) -> None:
    both = (RANGE, ROUNDROBIN)
    leader, follower = driver.stable(2, protocols=both)
    response = driver.exchange(join(follower, protocols=both))
    assert (response.error_code, response.generation_id, response.members, response.leader) == (E.none, 1, (), leader)
    first = driver.park(join(follower, protocols=both[::-1]))
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    second = driver.send(join(leader, protocols=both))
    assert {driver.response(token).generation_id for token in (first, second)} == {2}
    driver.sync_all([driver.response(first), driver.response(second)])
    driver.park(join(leader, protocols=both))
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    causes = [event.cause for event in driver.events if isinstance(event, RebalanceStarted)]
    assert causes == [Cause.MEMBER_JOINED, Cause.PROTOCOLS_CHANGED, Cause.LEADER_REJOINED]


def test_a_group_that_its_members_left_during_the_initial_delay_keeps_its_type_until_it_is_empty(make: Make) -> None:
    driver = make()
    first = driver.new_member()
    driver.exchange(leave(*driver.group().members))
    assert driver.response(first).error_code is E.unknown_member_id
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    connect = join(protocol_type="connect", protocols=(("default", b""),))
    assert driver.error(connect) is E.inconsistent_group_protocol
    assert driver.error(join(protocols=())) is E.inconsistent_group_protocol
    assert driver.error(join(protocols=(ROUNDROBIN,))) is E.member_id_required
    driver.at(13_000)
    assert driver.group().state is GroupState.EMPTY
    assert driver.error(connect) is E.member_id_required


def _offer(names: str) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, b"") for name in names.split())


@pytest.mark.parametrize(
    ("offers", "selected"),
    [
        (["range roundrobin"], "range"),
        (["range roundrobin", "roundrobin range"], "range"),
        (["range roundrobin", "roundrobin range", "roundrobin range"], "roundrobin"),
        (["range roundrobin", "roundrobin foo"], "roundrobin"),
        (["roundrobin range", "range"], "range"),
        (["roundrobin range sticky", "range sticky"], "range"),
        (["cooperative-sticky range", "cooperative-sticky range", "range"], "range"),
        (["sticky range", "range sticky"], "sticky"),
    ],
)
def test_30_voting(offers: list[str], selected: str) -> None:
    assert select([_offer(names) for names in offers]) == selected
    assert select([_offer(names) for names in reversed(offers)]) == selected, "the order of members decides nothing"


def test_voting_needs_a_common_protocol() -> None:
    with pytest.raises(ValueError, match="in common"):
        select([_offer("roundrobin"), _offer("range")])


@pytest.mark.parametrize(
    ("name", "bucket"),
    [
        ("uniform", 1),
        ("default", 2),
        ("compatible", 2),
        ("eager", 4),
        ("stream", 5),
        ("sticky", 8),
        ("range", 9),
        ("roundrobin", 10),
        ("v0", 10),
        ("connect", 14),
        ("cooperative-sticky", 15),
        ("sessioned", 15),
    ],
)
def test_buckets_of_a_java_hash_map(name: str, bucket: int) -> None:
    assert hash_map_bucket(name) == bucket

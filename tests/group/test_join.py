"""JoinGroup: ids, arguments, the initial delay, group.max.size, protocols. Numbers: the behaviour table's cases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.codec.records import GroupKey, decode_key, decode_value
from muster.actors.group.events import Cause, RebalanceStarted
from muster.actors.group.messages import NO_MEMBER, ListGroups
from muster.actors.group.protocols import hash_map_bucket, select
from muster.actors.group.state import GroupState
from tests.group.driver import RANGE, ROUNDROBIN, Driver, beat, commit, join, leave, sync

Make = Callable[..., Driver]
E = ErrorCode


def test_1_first_join_gets_an_id_and_creates_an_empty_group(make: Make) -> None:
    driver = make(auto=False)
    response = driver.exchange(join(), client="billing")
    assert (response.error, response.member_id, response.generation_id) == (E.member_id_required, "billing-id1", -1)
    assert driver.exchange(ListGroups(api_version=5)).groups == ()
    driver.write_all()
    (listed,) = driver.exchange(ListGroups(api_version=5)).groups
    assert (listed.group_id, listed.protocol_type, listed.state) == ("g", "", "Empty")
    (record,) = driver.log
    key = decode_key(record.key)
    assert isinstance(key, GroupKey)
    assert record.value is not None
    stored = decode_value(key, record.value)
    assert stored == driver.core.hard_state.groups[key.group]
    assert (stored.generation, stored.protocol_type, stored.members) == (0, "", ())  # type: ignore[union-attr]


def test_group_whose_record_fails_vanishes_and_hangs_nobody(make: Make) -> None:
    driver = make(auto=False)
    parked = driver.park(join(version=3))
    driver.fail(E.not_enough_replicas)
    assert driver.response(parked).error is E.coordinator_not_available
    assert driver.core.groups == {}
    assert driver.core.next_deadline_ms() == 1_000_000 + 600_000


def test_2_old_versions_join_without_a_second_request(driver: Driver) -> None:
    token = driver.park(join(version=3))
    driver.at(2999)
    assert token in driver.waiting()
    driver.at(3000)
    assert driver.response(token).generation_id == 1


def test_3_a_handed_out_id_is_no_member(driver: Driver) -> None:
    pending = driver.exchange(join()).member_id
    assert driver.error(beat(pending, 0)) is E.unknown_member_id


def test_4_a_handed_out_id_is_good_for_one_session(driver: Driver) -> None:
    first = driver.exchange(join(session_ms=6000)).member_id
    driver.advance(5999)
    driver.park(join(first, session_ms=6000))
    late = driver.exchange(join(session_ms=6000)).member_id
    driver.advance(6001)
    assert driver.error(join(late, session_ms=6000)) is E.unknown_member_id


def test_5_protocols_are_checked_again_with_the_id(driver: Driver) -> None:
    pending = driver.exchange(join()).member_id
    refused = driver.exchange(join(pending, protocols=()))
    assert (refused.error, refused.member_id) == (E.inconsistent_group_protocol, pending)
    driver.park(join(pending))


def test_6_unknown_id_creates_no_group(driver: Driver) -> None:
    assert driver.error(join("m1")) is E.unknown_member_id
    assert driver.core.groups == {}


@pytest.mark.parametrize(
    ("session_ms", "error"),
    [
        (5_999, E.invalid_session_timeout),
        (6_000, E.member_id_required),
        (1_800_000, E.member_id_required),
        (1_800_001, E.invalid_session_timeout),
    ],
)
def test_7_session_bounds_are_legal(driver: Driver, session_ms: int, error: ErrorCode) -> None:
    assert driver.error(join(session_ms=session_ms)) is error


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


def test_a_handed_out_id_is_never_static(driver: Driver) -> None:
    pending = driver.exchange(join()).member_id
    assert driver.error(join(pending, instance="i")) is E.unknown_server_error


def test_a_second_join_takes_the_place_of_the_parked_one(driver: Driver) -> None:
    first = driver.new_member()
    member = driver.requests[first].member_id  # type: ignore[union-attr]
    second = driver.park(join(member))
    assert driver.response(first).error is E.rebalance_in_progress
    driver.advance(3000)
    assert driver.response(second).generation_id == 1


# group.max.size


def test_10_the_eleventh_of_ten_is_refused(make: Make) -> None:
    driver = make(group_max_size=10)
    ids = [driver.exchange(join()).member_id for _ in range(11)]
    tokens = [driver.park(join(member)) for member in ids[:10]]
    refused = driver.exchange(join(ids[10]))
    assert (refused.error, refused.member_id) == (E.group_max_size_reached, NO_MEMBER)
    driver.advance(6000)
    assert {driver.response(token).generation_id for token in tokens} == {1}


def test_11_a_member_of_a_full_group_may_rejoin(make: Make) -> None:
    driver = make(group_max_size=2)
    leader, follower = driver.stable(2)
    assert driver.error(join()) is E.group_max_size_reached
    first = driver.park(join(leader))
    assert driver.exchange(join(follower)).generation_id == 2
    assert driver.response(first).generation_id == 2


def test_12_a_group_loaded_above_the_limit_shrinks(make: Make) -> None:
    driver = make()
    first, second = driver.stable(2)
    small = make(group_max_size=1)
    small.log = driver.log
    small.now_ms = driver.now_ms
    small.restart()
    assert small.group().state is GroupState.PREPARING_REBALANCE
    token = small.park(join(first))
    refused = small.exchange(join(second))
    assert (refused.error, refused.member_id) == (E.group_max_size_reached, NO_MEMBER)
    assert small.response(token).generation_id == 2, "the refusal ends the join phase"
    assert [member.member_id for member in small.response(token).members] == [first]


def test_full_group_still_takes_a_static_replacement(make: Make) -> None:
    driver = make(group_max_size=1)
    driver.stable_static("i")
    assert driver.error(join(instance="i")) is E.none


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


def test_initial_delay_applies_whenever_a_group_leaves_empty(driver: Driver) -> None:
    (member,) = driver.stable()
    driver.exchange(leave(member))
    assert driver.group().state is GroupState.EMPTY
    token = driver.new_member()
    driver.advance(2999)
    assert token in driver.waiting()
    driver.advance(1)
    assert driver.response(token).generation_id == 3


@pytest.mark.parametrize(("how", "completes_at"), [("leaves", 10_000), ("expires", 6_000), ("stays", 3_000)])
def test_15_a_handed_out_id_and_the_initial_delay(make: Make, how: str, completes_at: int) -> None:
    driver = make(group_initial_rebalance_delay_ms=3_000 if how == "stays" else 10_000)
    token = driver.new_member()
    pending = driver.exchange(join(session_ms=6000)).member_id
    if how == "leaves":
        driver.at(2000)
        assert driver.error(leave(pending)) is E.none
    driver.at(completes_at - 1)
    assert token in driver.waiting()
    driver.at(completes_at)
    assert driver.response(token).generation_id == 1
    if how == "stays":
        driver.park(join(pending))


def test_a_handed_out_id_blocks_early_completion_until_it_joins(driver: Driver) -> None:
    leader, follower = driver.stable(2)
    pending = driver.exchange(join()).member_id
    first = driver.park(join(leader))
    second = driver.park(join(follower))
    third = driver.send(join(pending))
    assert {driver.response(token).generation_id for token in (first, second, third)} == {2}


def test_16_a_new_member_waits_five_minutes_at_most(driver: Driver) -> None:
    (member,) = driver.stable(rebalance_ms=600_000)
    token = driver.new_member(rebalance_ms=600_000)
    for _ in range(60):
        driver.advance(5000)
        driver.send(beat(member, 1))
    response = driver.response(token)
    assert (response.error, response.member_id) == (E.unknown_member_id, NO_MEMBER)
    assert [*driver.group().members] == [member]


# Rejoining and protocols


def test_27_rejoin_of_a_stable_group(driver: Driver) -> None:
    both = (RANGE, ROUNDROBIN)
    leader, follower = driver.stable(2, protocols=both)
    response = driver.exchange(join(follower, protocols=both))
    assert (response.error, response.generation_id, response.members, response.leader) == (E.none, 1, (), leader)
    first = driver.park(join(follower, protocols=both[::-1]))
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    second = driver.send(join(leader, protocols=both))
    assert {driver.response(token).generation_id for token in (first, second)} == {2}
    driver.sync_all([driver.response(first), driver.response(second)])
    driver.park(join(leader, protocols=both))
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    causes = [event.cause for event in driver.events if isinstance(event, RebalanceStarted)]
    assert causes == [Cause.MEMBER_JOINED, Cause.PROTOCOLS_CHANGED, Cause.LEADER_REJOINED]


def test_28_leader_rejoins_while_its_assignment_is_awaited(driver: Driver) -> None:
    tokens = [driver.new_member() for _ in range(2)]
    driver.advance(6000)
    leader, follower = (driver.response(token) for token in tokens)
    again = driver.exchange(join(leader.member_id))
    assert (again.generation_id, again.members) == (1, leader.members)
    assert driver.exchange(join(follower.member_id)).members == ()


def test_29_no_common_protocol(driver: Driver) -> None:
    driver.stable(protocols=(ROUNDROBIN,))
    assert driver.error(join(protocols=(RANGE,))) is E.inconsistent_group_protocol
    assert driver.error(join(protocols=(ROUNDROBIN,), protocol_type="connect")) is E.inconsistent_group_protocol


def test_31_an_empty_group_may_change_its_type(driver: Driver) -> None:
    (member,) = driver.stable()
    driver.exchange(leave(member))
    driver.stable(protocol_type="connect", protocols=(("default", b""),))
    assert driver.group().protocol_type == "connect"


def test_a_group_that_its_members_left_during_the_initial_delay_keeps_its_type_until_it_is_empty(make: Make) -> None:
    driver = make()
    first = driver.new_member()
    driver.exchange(leave(*driver.group().members))
    assert driver.response(first).error is E.unknown_member_id
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


def test_leader_learns_everybody_with_the_selected_metadata(driver: Driver) -> None:
    tokens = [driver.new_member(protocols=(RANGE, ROUNDROBIN)) for _ in range(2)]
    driver.advance(6000)
    leader, follower = (driver.response(token) for token in tokens)
    assert [member.metadata for member in leader.members] == [RANGE[1]] * 2
    assert {member.member_id for member in leader.members} == {leader.member_id, follower.member_id}
    assert (follower.members, follower.leader, follower.skip_assignment) == ((), leader.member_id, False)
    assert (leader.protocol_type, leader.protocol_name) == ("consumer", "range")


def test_a_simple_group_becomes_a_consumer_group(driver: Driver) -> None:
    driver.exchange(commit({("t", 0): 5}))
    driver.stable()
    assert driver.offset("t", 0) == 5
    assert driver.error(sync("nobody", 1)) is E.unknown_member_id

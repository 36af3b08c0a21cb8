"""Loading, taking over, resigning. Numbers: the behaviour table's cases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.codec.primitives import Writer
from muster.actors.group.errors import CorruptRecord
from muster.actors.group.events import PartitionLoaded, RecordsSkipped
from muster.actors.group.messages import DeleteGroups, DescribeGroups, ListGroups
from muster.actors.group.state import GroupState
from muster.actors.group.types import Phase, Record
from tests.group.driver import Driver, G, assignment, beat, commit, error_of, fetch, join, leave, subscription, sync

Make = Callable[..., Driver]
E = ErrorCode
LOADING, ELSEWHERE = E.coordinator_load_in_progress, E.not_coordinator


def test_8_a_bad_session_timeout_is_reported_even_while_loading(make: Make) -> None:
    driver = make(start=False)
    assert driver.error(join(session_ms=1)) is E.invalid_session_timeout
    assert driver.error(join(group="")) is E.invalid_group_id


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (beat("m", 1), E.none),
        (sync("m", 1), LOADING),
        (join(), LOADING),
        (leave("m", version=2), LOADING),
        (commit({("t", 0): 1}), LOADING),
        (fetch(("t", 0)), LOADING),
        (DescribeGroups(api_version=5, groups=(G,)), LOADING),
        (DeleteGroups(api_version=2, groups=(G,)), LOADING),
    ],
)
def test_9_while_loading(make: Make, sent: object, error: ErrorCode) -> None:
    driver = make(start=False)
    assert driver.error(sent) is error  # type: ignore[arg-type]
    driver.topics_deleted("t")


def test_57_a_group_is_stable_again_after_a_crash(driver: Driver) -> None:
    first, second = driver.stable(2)
    driver.exchange(commit({("t", 0): 7}, member_id=first, generation=1))
    driver.exchange(commit({("t", 0): 9}, member_id=first, generation=1))
    before = [driver.exchange(sync(member, 1)).assignment for member in (first, second)]
    driver.advance(9000)
    driver.restart()
    assert driver.events[-1] == PartitionLoaded(groups=1, offsets=1)
    group = driver.group()
    assert (group.state, group.generation, group.leader, group.protocol) == (GroupState.STABLE, 1, first, "range")
    assert group.subscribed_topics == {"t"}
    assert driver.offset("t", 0) == 9
    driver.advance(9999)
    assert [driver.error(beat(member, 1)) for member in (first, second)] == [E.none] * 2, "a whole session"
    assert [driver.exchange(sync(member, 1)).assignment for member in (first, second)] == before
    driver.advance(10_000)
    assert driver.group().state is GroupState.EMPTY


def _old_group(version: int, *, with_member: bool = True) -> Record:
    out = Writer().int16(version).string("consumer").int32(4).nullable_string("range").nullable_string("m")
    if version >= 2:
        out.int64(123)
    out.int32(int(with_member))
    if with_member:
        out.string("m")
        if version >= 3:
            out.nullable_string("i")
        out.string("c").string("/10.0.0.7")
        if version >= 1:
            out.int32(20_000)
        out.int32(10_000).blob(subscription("t")).blob(assignment(("t", 0)))
    return Record(Writer().int16(2).string("g").bytes(), out.bytes())


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_57_groups_of_every_version_load(make: Make, version: int) -> None:
    driver = make(start=False)
    driver.log = [_old_group(version)]
    driver.restart()
    member = driver.group().members["m"]  # type: ignore[index]
    assert driver.group().state is GroupState.STABLE
    assert member.rebalance_timeout_ms == (20_000 if version else 10_000), "v0: the session timeout stands in"
    assert (member.client_host, member.group_instance_id) == ("10.0.0.7", "i" if version == 3 else None)
    assert driver.error(beat("m", 4)) is E.none
    assert driver.group().state_since_ms == (123 if version >= 2 else -1)


def test_a_tombstone_removes_the_group_and_the_last_value_wins(make: Make) -> None:
    driver = make(start=False)
    key = _old_group(3).key
    driver.log = [_old_group(3), Record(key, None)]
    driver.restart()
    assert driver.core.groups == {}
    driver.log += [_old_group(3), _old_group(3, with_member=False)]
    driver.restart()
    assert driver.group().state is GroupState.EMPTY


def test_other_record_types_are_skipped_and_reported(make: Make) -> None:
    driver = make(start=False)
    driver.log = [
        Record(Writer().int16(10).string("k").bytes(), b"\0\0\0"),
        _old_group(3),
        Record(Writer().int16(12).string("k").bytes(), None),
        Record(Writer().int16(10).string("k").bytes(), None),
    ]
    driver.restart()
    assert [event for event in driver.events if isinstance(event, RecordsSkipped)] == [
        RecordsSkipped(key_type=10, count=2, first_offset=0),
        RecordsSkipped(key_type=12, count=1, first_offset=2),
    ]
    assert [*driver.core.groups] == ["g"]


def test_a_record_that_cannot_be_read_fails_the_loading(make: Make) -> None:
    core = make(start=False).core
    good = _old_group(3)
    assert good.value is not None
    for bad in (Record(good.key, good.value[:-1]), Record(good.key, b"\0\x05"), Record(b"\0", b""), Record(b"", None)):
        with pytest.raises(CorruptRecord):
            core.replay(0, bad, 0)


def test_58_resigning_ends_parked_joins(driver: Driver) -> None:
    (a,) = driver.stable()
    token = driver.new_member()
    driver.resign()
    response = driver.response(token)
    assert (response.error_code, response.member_id) == (ELSEWHERE, driver.requests[token].member_id)  # type: ignore[union-attr]
    assert driver.error(beat(a, 1)) is ELSEWHERE
    assert driver.error(join()) is ELSEWHERE
    assert driver.error(ListGroups(api_version=5)) is ELSEWHERE
    assert driver.core.phase is Phase.RESIGNED
    assert driver.core.next_deadline_ms() is None
    assert driver.group().state is GroupState.DEAD
    driver.resign()


def test_58_resigning_ends_parked_syncs_and_held_responses(make: Make) -> None:
    driver = make()
    tokens = [driver.new_member() for _ in range(2)]
    leader, follower = (response.member_id for response in driver.responses_to(tokens))
    driver.auto = False
    waiting = [driver.park(sync(follower, 1)), driver.park(sync(leader, 1))]
    waiting += [driver.park(commit({("t", 0): 1}, group="other")), driver.park(beat(leader, 1))]
    updates = len(driver.updates)
    driver.resign()
    assert {error_of(driver.response(token)) for token in waiting} == {ELSEWHERE}
    assert len(driver.updates) == updates, "no withdrawal: the members are still there"
    driver.write_all()


def test_nothing_hangs_when_a_write_fails_after_the_partition_resigned(make: Make) -> None:
    driver = make(auto=False)
    driver.park(join(version=3))
    driver.resign()
    assert not driver.waiting()
    driver.fail(E.not_leader_or_follower)

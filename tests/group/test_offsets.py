"""Offsets: commits, storage, fetches, deletion and expiry. Numbers: the behaviour table's cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.codec.records import CommittedOffset, OffsetKey
from muster.actors.group.events import GroupDeleted, OffsetsCommitted, OffsetsDeleted, OffsetsExpired, RemovedOffset
from muster.actors.group.messages import CommitPartition, CommitTopic, DeleteGroups, OffsetDelete
from muster.actors.group.types import GroupId
from tests.group.driver import HOST, Driver, G, commit, error_of, fetch, join, leave, subscription

Make = Callable[..., Driver]
E = ErrorCode


def _delete(*partitions: tuple[str, int], group: str = G) -> OffsetDelete:
    return OffsetDelete(
        api_version=0, group_id=GroupId(group), topics=tuple((topic, (index,)) for topic, index in partitions)
    )


def _stored(driver: Driver, topic: str, partition: int) -> CommittedOffset | None:
    return driver.core.hard_state.offsets(G).get((topic, partition))


def test_43_a_group_with_members_takes_no_simple_commit(driver: Driver) -> None:
    driver.stable()
    assert driver.error(commit({("t", 0): 1})) is E.unknown_member_id
    assert driver.error(commit({("t", 0): 1}, member_id="x")) is E.unknown_member_id


def test_44_commit_to_an_unknown_group(driver: Driver) -> None:
    assert driver.error(commit({("t", 0): 1}, generation=1)) is E.group_id_not_found
    assert driver.error(commit({("t", 0): 1}, generation=1, version=8)) is E.illegal_generation
    assert driver.core.groups == {}
    assert driver.error(commit({("t", 0): 1}, member_id="whoever")) is E.none
    assert driver.group().is_simple
    assert driver.error(commit({("t", 0): 1}, generation=0)) is E.unknown_member_id


def test_45_metadata_is_measured_in_utf16_units(driver: Driver) -> None:
    fits = driver.exchange(commit({("t", 0): 1}, metadata="\U0001f600" * 2048))
    too_long = driver.exchange(commit({("t", 1): 1}, metadata="\U0001f600" * 2048 + "x"))
    assert (error_of(fits), error_of(too_long)) == (E.none, E.offset_metadata_too_large)
    stored = _stored(driver, "t", 0)
    assert stored is not None
    assert len(stored.metadata) == 2048
    assert _stored(driver, "t", 1) is None


def test_a_refused_partition_creates_no_group(driver: Driver) -> None:
    driver.exchange(commit({("t", 0): 1}, metadata="x" * 5000))
    assert driver.core.groups == {}


def test_metadata_that_no_record_can_hold(make: Make) -> None:
    driver = make(offset_metadata_max_bytes=1_000_000)
    assert driver.error(commit({("t", 0): 1}, metadata="x" * 32_767)) is E.none
    assert driver.error(commit({("t", 0): 1}, metadata="x" * 32_768)) is E.offset_metadata_too_large


@pytest.mark.parametrize("text", ["x" * 32_768, "\u00e9" * 16_384], ids=["ascii", "other"])
def test_a_group_id_that_no_record_can_hold_is_refused(driver: Driver, text: str) -> None:
    """A compact string may be longer than the strings of records; nothing of it may stay in the state."""
    assert driver.error(commit({("t", 0): 1}, group=text)) is E.unknown_server_error
    assert driver.error(join(group=text)) is E.unknown_server_error
    assert driver.error(join(protocol_type=text)) is E.unknown_server_error
    assert driver.error(join(protocols=((text, b""),))) is E.unknown_server_error
    driver.topics_deleted("t")
    assert driver.error(commit({("t", 0): 1}, group=text[1:])) is E.none


def test_offsets_may_go_back_and_below_zero(driver: Driver) -> None:
    for offset in (10, 3, -5):
        assert driver.error(commit({("t", 0): offset})) is E.none
        assert driver.offset("t", 0) == offset
    steps = [(("t", 0, before, offset),) for before, offset in ((None, 10), (10, 3), (3, -5))]
    assert [event.partitions for event in _commits(driver)] == steps


def test_a_commit_is_reported_with_its_client(driver: Driver) -> None:
    driver.exchange(commit({("t", 0): 5}, member_id="not asked for"), client=None)
    [member_id] = driver.stable()
    assert driver.error(commit({("t", 0): 7}, member_id=member_id, generation=1)) is E.none
    outside, member = _commits(driver)
    assert (outside.generation, outside.member_id, outside.client_id, outside.host) == (None, None, None, HOST)
    assert (member.generation, member.member_id, member.client_id, member.host) == (1, member_id, "c", HOST)


def test_of_a_partition_that_a_commit_names_twice_the_last_offset_counts(make: Make) -> None:
    driver = make(auto=False)
    driver.send(commit({("t", 0): 5}))
    driver.write_all()
    twice = CommitTopic.of("t", [CommitPartition(0, 7, 1), CommitPartition(1, 2), CommitPartition(0, 9, 2)])
    driver.send(replace(commit({}), topics=(twice,)))
    assert driver.offset("t", 0) == 5
    driver.write_all()
    assert (driver.offset("t", 0), driver.offset("t", 1)) == (9, 2)
    assert _commits(driver)[-1].partitions == (("t", 0, 5, 7), ("t", 1, None, 2), ("t", 0, 7, 9))
    assert driver.replayed() == driver.core.hard_state
    driver.send(replace(commit({}), topics=(twice,)))
    driver.fail(E.not_coordinator)
    assert (driver.offset("t", 0), driver.offset("t", 1)) == (9, 2)


def _commits(driver: Driver) -> list[OffsetsCommitted]:
    return [event for event in driver.events if isinstance(event, OffsetsCommitted)]


def test_a_failed_commit_leaves_no_group(make: Make) -> None:
    driver = make(auto=False)
    token = driver.park(commit({("t", 0): 1}))
    driver.fail(E.request_timed_out)
    assert error_of(driver.response(token)) is E.coordinator_not_available
    assert driver.core.groups == {}
    assert not any(isinstance(event, OffsetsCommitted) for event in driver.events)


# Fetch


def test_a_plain_fetch_sees_what_is_durable_and_a_stable_one_waits(make: Make) -> None:
    driver = make()
    driver.exchange(commit({("t", 0): 1, ("t", 1): 1}))
    driver.auto = False
    driver.park(commit({("t", 0): 2}))
    driver.park(commit({("t", 0): 3}))
    driver.park(_delete(("t", 1)))
    driver.park(commit({("u", 0): 9}))
    assert [driver.offset("t", 0), driver.offset("t", 1), driver.offset("u", 0)] == [1, 1, -1]
    waits = driver.park(fetch(("t", 0), stable=True))
    driver.write_all()
    assert driver.response(waits).groups[0].topics[0].partitions[0].committed_offset == 3
    assert [driver.offset("t", 0), driver.offset("t", 1), driver.offset("u", 0)] == [3, -1, 9]


# OffsetDelete, deleted topics


def test_54_a_subscribed_topic_keeps_its_offsets(driver: Driver) -> None:
    (a,) = driver.stable()
    driver.exchange(commit({("t", 0): 1, ("u", 0): 1}, member_id=a, generation=1))
    response = driver.exchange(_delete(("t", 0), ("u", 0), ("u", 5)))
    assert response.error_code is E.none
    assert [topic.partitions[0].error_code for topic in response.topics] == [
        E.group_subscribed_to_topic,
        E.none,
        E.none,
    ]
    assert (driver.offset("t", 0), driver.offset("u", 0)) == (1, -1)
    assert driver.events[-1] == OffsetsDeleted(group=G, partitions=(RemovedOffset("u", 0, 1),))


def test_56_deleted_topics_lose_their_offsets_everywhere(driver: Driver) -> None:
    (a,) = driver.stable()
    driver.exchange(commit({("t", 0): 1, ("u", 0): 1}, member_id=a, generation=1))
    driver.exchange(commit({("t", 3): 1}, group="other"))
    driver.topics_deleted("t")
    assert [driver.offset("t", 0), driver.offset("u", 0), driver.offset("t", 3, group="other")] == [-1, 1, -1]
    assert set(driver.core.groups) == {"g", "other"}
    written = len(driver.log)
    driver.topics_deleted("t", "nothing")
    assert len(driver.log) == written


def test_55_delete_groups(driver: Driver) -> None:
    driver.exchange(commit({("t", 0): 1}, group="empty"))
    driver.stable()
    names = tuple(GroupId(name) for name in ("empty", "g", "missing", "empty"))
    response = driver.exchange(DeleteGroups(api_version=2, groups=names))
    assert [(group.group_id, group.error_code) for group in response.results] == [
        ("empty", E.none),
        ("g", E.non_empty_group),
        ("missing", E.group_id_not_found),
    ]
    assert driver.offset("t", 0, group="empty") == -1
    assert driver.events[-2:] == [
        OffsetsDeleted(group=GroupId("empty"), partitions=(RemovedOffset("t", 0, 1),)),
        GroupDeleted(group=GroupId("empty")),
    ]


def test_a_deletion_that_fails_keeps_the_group(make: Make) -> None:
    driver = make()
    driver.exchange(commit({("t", 0): 1}))
    driver.auto = False
    token = driver.park(DeleteGroups(api_version=2, groups=(G,)))
    driver.fail(E.not_enough_replicas)
    assert driver.response(token).results[0].error_code is E.coordinator_not_available
    assert driver.offset("t", 0) == 1
    assert G in driver.core.groups


# Expiry


def _short_retention(make: Make) -> Driver:
    """Offsets last a minute, and the walk runs every second."""
    return make(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)


def test_46_an_empty_group_keeps_its_offsets_for_the_retention(make: Make) -> None:
    driver = _short_retention(make)
    (a,) = driver.stable()
    driver.exchange(commit({("t", 0): 1}, member_id=a, generation=1))
    driver.advance(5000)
    driver.exchange(leave(a))
    driver.advance(59_999)
    assert driver.offset("t", 0) == 1
    driver.advance(1001)
    assert driver.offset("t", 0) == -1
    assert G not in driver.core.groups
    assert driver.events[-2:] == [
        OffsetsExpired(group=G, partitions=(RemovedOffset("t", 0, 1),)),
        GroupDeleted(group=G),
    ]


@pytest.mark.parametrize("subscribed", [b"?", subscription("t")])
def test_no_offset_of_a_rebalancing_or_unreadable_group_expires(make: Make, subscribed: bytes) -> None:
    driver = _short_retention(make)
    (a,) = driver.stable(session_ms=600_000, rebalance_ms=600_000, protocols=(("range", subscribed),))
    driver.exchange(commit({("u", 0): 1}, member_id=a, generation=1))
    if subscribed != b"?":
        driver.new_member(session_ms=600_000, rebalance_ms=600_000)
    driver.advance(120_000)
    assert driver.offset("u", 0) == 1


def test_48_an_explicit_retention_rules(make: Make) -> None:
    driver = make(offsets_retention_check_interval_ms=1)
    driver.exchange(commit({("t", 0): 1}, version=2, retention_ms=10))
    driver.advance(9)
    assert driver.offset("t", 0) == 1
    driver.advance(1)
    assert driver.offset("t", 0) == -1
    assert G not in driver.core.groups


def test_an_empty_group_without_offsets_goes_at_the_next_walk(make: Make) -> None:
    driver = make()
    pending = driver.exchange(join(session_ms=1_800_000)).member_id
    driver.advance(599_999)
    assert G in driver.core.groups
    driver.advance(1)
    assert G not in driver.core.groups
    assert driver.error(join(pending)) is E.unknown_member_id
    assert driver.core.next_deadline_ms() == driver.now_ms + 600_000, "only the next walk is armed"


def test_the_first_walk_comes_one_interval_after_loading(make: Make) -> None:
    driver = make(offsets_retention_check_interval_ms=50)
    assert driver.core.next_deadline_ms() == driver.now_ms + 50


def test_offset_of_an_old_version_expires_by_its_own_timestamp(driver: Driver) -> None:
    driver.exchange(commit({("t", 0): 1}, version=4, retention_ms=5))
    stored = driver.core.hard_state.get(OffsetKey(G, "t", 0))
    assert stored == CommittedOffset(offset=1, commit_timestamp_ms=driver.now_ms, expire_timestamp_ms=driver.now_ms + 5)

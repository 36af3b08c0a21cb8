"""Effects of one heartbeat of a consumer group that must not remain, or be hidden."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.config import MusterConfig, group_config
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.events import GroupEpochRaised, MemberExpired, Removal
from muster.actors.group.messages import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    DescribeGroups,
    ListGroups,
)
from muster.actors.group.types import MemberId
from tests.group.driver import Driver, G, join, leave

TOO_LONG = "a" * 40_000
"""Longer than a string in a record's key."""
Share = frozenset[tuple[UUID, int]]


def driver_with_topic(*, auto: bool = True, **properties: str) -> Driver:
    """Topic t has 3 partitions. Dots of properties are written as underscores."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    driver = Driver(group_config(MusterConfig.from_properties(given)), auto=auto)
    driver.topics_known({"t": TopicInfo(UUID(int=1), 3)})
    return driver


def heartbeat(member_id: str, epoch: int = 0, *, regex: str = "") -> ConsumerGroupHeartbeat:
    return ConsumerGroupHeartbeat(
        api_version=1,
        group_id=G,
        member_id=MemberId(member_id),
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        topics=("t",),
        regex=regex,
        owned=frozenset(),
    )


def owning(member_id: str, epoch: int, share: Share) -> ConsumerGroupHeartbeat:
    """Return the heartbeat of a member that has these partitions."""
    return replace(heartbeat(member_id, epoch), owned=share)


def assigned(response: ConsumerGroupHeartbeatResponse) -> tuple[int, Share]:
    """Its epoch, and its partitions."""
    assert (response.error_code, response.assignment is not None) == (ErrorCode.none, True)
    topics = response.assignment.topic_partitions if response.assignment else ()
    return response.member_epoch, frozenset((each.topic_id, index) for each in topics for index in each.partitions)


def broken(*_: object) -> None:
    raise RuntimeError("broken")


def listed(driver: Driver) -> list[str]:
    return [row.group_id for row in driver.exchange(ListGroups(api_version=5)).groups]


@pytest.mark.parametrize("request_", [heartbeat(TOO_LONG), heartbeat("m", regex=TOO_LONG)], ids=["member", "regex"])
def test_a_name_that_does_not_fit_a_record_is_refused(request_: ConsumerGroupHeartbeat) -> None:
    driver = driver_with_topic()
    assert driver.error(request_) is ErrorCode.unknown_server_error
    assert listed(driver) == []


def test_a_step_that_raises_leaves_nothing_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = driver_with_topic()
    with monkeypatch.context() as patch:
        patch.setattr("muster.actors.group.consumer.heartbeat.refresh_regexes", broken)
        with pytest.raises(RuntimeError):
            driver.send(heartbeat("m"))
    assert listed(driver) == []
    assert driver.log == []
    assert driver.core.hard_state == driver.replayed()


def test_a_durable_group_that_was_empty_is_shown_while_its_next_member_joins() -> None:
    driver = driver_with_topic(auto=False)
    driver.send(heartbeat("a"))
    driver.write_all()
    driver.send(heartbeat("a", -1))
    driver.write_all()
    driver.send(heartbeat("b"))
    token = driver.send(ListGroups(api_version=5))
    driver.write_all()
    assert [row.group_id for row in driver.response(token).groups] == [G]


def test_a_step_that_raises_has_not_seen_the_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = driver_with_topic()
    (epoch, share) = assigned(driver.exchange(heartbeat("m")))
    assert len(share) == 3
    driver.topics_known({"t": TopicInfo(UUID(int=1), 4)})
    driver.advance(2_000)
    with monkeypatch.context() as patch:
        patch.setattr("muster.actors.group.consumer.heartbeat.refresh_regexes", broken)
        with pytest.raises(RuntimeError):
            driver.send(owning("m", epoch, share))
    assert len(assigned(driver.exchange(owning("m", epoch, share)))[1]) == 4


def test_a_step_that_raises_begins_no_rebalance(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = driver_with_topic()
    driver.exchange(heartbeat("a"))
    with monkeypatch.context() as patch:
        patch.setattr("muster.actors.group.consumer.heartbeat.refresh_regexes", broken)
        with pytest.raises(RuntimeError):
            driver.send(heartbeat("b"))
    driver.advance(5_000)
    driver.exchange(heartbeat("b"))
    raised = [event for event in driver.events if isinstance(event, GroupEpochRaised)]
    assert [event.from_state for event in raised] == ["Empty", "Stable"]
    assert [wait.since_ms for wait in driver.core.waiting()] == [driver.now_ms]


def test_an_empty_group_is_shown_while_its_first_classic_member_joins() -> None:
    driver = driver_with_topic(auto=False)
    driver.send(heartbeat("a"))
    driver.send(heartbeat("a", -1))
    driver.write_all()
    driver.send(join())
    assert listed(driver) == [G]
    (described,) = driver.exchange(DescribeGroups(api_version=6, groups=(G,))).groups
    assert (described.error_code, described.group_state) == (ErrorCode.none, "Empty")


def test_an_empty_group_that_is_not_in_the_log_is_not_shown_before_it_is() -> None:
    driver = driver_with_topic(auto=False)
    driver.send(heartbeat("a"))
    driver.send(heartbeat("a", -1))
    driver.send(join())
    assert listed(driver) == []
    driver.write_all()
    assert listed(driver) == [G]


def test_a_classic_group_that_is_not_in_the_log_is_not_shown_as_a_consumer_group() -> None:
    driver = driver_with_topic(auto=False)
    driver.send(join())
    driver.send(heartbeat("a"))
    assert listed(driver) == []
    driver.write_all()
    assert listed(driver) == [G]


def test_a_member_whose_removal_cannot_be_written_has_its_session_again() -> None:
    driver = driver_with_topic(auto=False)
    driver.send(heartbeat("a"))
    driver.write_all()
    driver.advance(45_000)
    assert [type(event) for event in driver.events if isinstance(event, MemberExpired)] == [MemberExpired]
    driver.fail(ErrorCode.message_too_large)
    group = driver.core.consumer_groups[G]
    assert [each.member_id for each in driver.core.registrations()] == [*group.members] == ["a"]
    driver.advance(44_000)
    assert [*group.members] == ["a"]
    driver.advance(1_000)
    driver.write_all()
    assert [*driver.core.consumer_groups[G].members] == []


def test_a_member_that_cannot_be_written_to_have_given_up_its_partitions_still_has_to() -> None:
    driver = driver_with_topic(auto=False)
    driver.send(heartbeat("a"))
    driver.write_all()
    driver.advance(2_000)
    driver.send(heartbeat("b"))
    driver.write_all()
    epoch = driver.core.consumer_groups[G].assignment_of(MemberId("a")).epoch
    driver.send(replace(heartbeat("a", epoch), owned=None))
    driver.write_all()
    kept = driver.core.consumer_groups[G].assignment_of(MemberId("a"))
    assert kept.revoking
    driver.send(owning("a", epoch, frozenset(kept.assigned)))
    driver.fail(ErrorCode.message_too_large)
    for _ in range(2):
        driver.advance(30_000)
        driver.send(replace(heartbeat("a", epoch), owned=None))
        driver.write_all()
    expired = [event for event in driver.events if isinstance(event, MemberExpired) and event.member_id == "a"]
    assert [event.cause for event in expired] == [Removal.REBALANCE_TIMEOUT]


def test_a_static_member_that_leaves_for_a_while_gives_up_what_it_had_to() -> None:
    driver = driver_with_topic()
    first = replace(heartbeat("a"), instance_id="i")
    driver.exchange(first)
    driver.advance(2_000)
    driver.exchange(heartbeat("b"))
    epoch = driver.core.consumer_groups[G].assignment_of(MemberId("a")).epoch
    driver.exchange(replace(first, member_epoch=epoch, owned=None))
    (registration,) = [each for each in driver.core.registrations() if each.member_id == "a"]
    assert registration.partitions == {("t", 0), ("t", 1), ("t", 2)}
    driver.exchange(replace(first, member_epoch=-2))
    (registration,) = [each for each in driver.core.registrations() if each.member_id == "a"]
    assert registration.partitions == {("t", 0), ("t", 1)}


def test_what_a_member_has_to_give_up_is_described_as_its_own() -> None:
    driver = driver_with_topic()
    driver.exchange(heartbeat("a"))
    driver.advance(2_000)
    driver.exchange(heartbeat("b"))
    epoch = driver.core.consumer_groups[G].assignment_of(MemberId("a")).epoch
    driver.exchange(replace(heartbeat("a", epoch), owned=None))
    (group,) = driver.exchange(ConsumerGroupDescribe(api_version=1, groups=(G,))).groups
    shown = {
        member.member_id: [index for each in member.assignment.topic_partitions for index in each.partitions]
        for member in group.members
    }
    assert shown == {"a": [0, 1, 2], "b": []}


def test_a_static_member_that_is_removed_by_its_instance_id() -> None:
    driver = driver_with_topic()
    driver.exchange(replace(heartbeat("a"), instance_id="i"))
    (left,) = driver.exchange(leave(("", "i"))).members
    assert (left.member_id, left.group_instance_id, left.error_code) == ("", "i", ErrorCode.none)
    assert not driver.core.consumer_groups[G].members


def test_members_on_one_connection_come_and_go() -> None:
    """The last one that was heard leaves, and the other one gets its partitions."""
    driver = driver_with_topic(group_consumer_assignment_interval_ms="0")
    epochs = {"A": 0, "B": 0}
    owned: dict[str, Share] = {"A": frozenset(), "B": frozenset()}

    def beat(member: str) -> None:
        request = owning(member, epochs[member], owned[member])
        response: ConsumerGroupHeartbeatResponse = driver.exchange(request, connection="1-5")
        assert response.error_code is ErrorCode.none
        epochs[member] = response.member_epoch
        if response.assignment is not None:
            _, owned[member] = assigned(response)

    for member in ("A", "B", "A", "A", "B", "B"):
        beat(member)
    assert sorted(map(len, owned.values())) == [1, 2]
    epochs["B"] = -1
    beat("B")
    beat("A")
    assert len(owned["A"]) == 3

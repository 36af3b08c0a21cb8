"""Groups that change their protocol: with subscriptions that the coordinator cannot read, and with a log that fails."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_protocol import read_assignment
from muster.actors.group.codec.consumer_records import (
    ClassicMember,
    ConsumerKey,
    ConsumerRecord,
    consumer_record,
)
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.state import GroupState
from muster.actors.group.types import MemberId
from tests.group.consumer.test_steps import driver_with_topic, heartbeat
from tests.group.driver import RANGE, Driver, G, Protocol, assignment, beat, join, sync

UNREADABLE = ("custom", b"\x01")


def two_classic_members(*first: Protocol) -> tuple[Driver, str, str]:
    """Make a Stable group with the protocol ``range``; return the members' ids.

    The first member has the protocols ``first``.
    """
    driver = driver_with_topic()
    tokens = [driver.new_member(protocols=protocols, session_ms=300_000) for protocols in (first, (RANGE,))]
    joins = driver.responses_to(tokens)
    assert {each.protocol_name for each in joins} == {"range"}
    a, b = (each.member_id for each in joins)
    driver.sync_all(joins, lambda member_id: assignment(("t", 0 if member_id == a else 1)))
    return driver, a, b


def test_a_group_with_a_first_protocol_that_is_unreadable_stays_a_classic_group() -> None:
    driver, a, b = two_classic_members(UNREADABLE, RANGE)
    refused = driver.exchange(heartbeat("c"))
    assert refused.error_code is ErrorCode.group_id_not_found
    assert "the embedded consumer protocol is malformed" in refused.error_message
    assert driver.group().state is GroupState.STABLE
    assert {driver.error(beat(member, 1)) for member in (a, b)} == {ErrorCode.none}


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "expires"])
def test_a_record_with_a_first_protocol_that_is_unreadable_does_not_end_the_coordinator(leaves: bool) -> None:
    driver, a, _ = two_classic_members(RANGE)
    driver.exchange(heartbeat("c"))
    group = driver.core.consumer_groups[G]
    written_by_kafka = replace(
        group.members[MemberId(a)], classic=ClassicMember(session_timeout_ms=300_000, protocols=(UNREADABLE, RANGE))
    )
    driver.log.append(consumer_record(ConsumerKey(ConsumerRecord.MEMBER_METADATA, G, a), written_by_kafka))
    driver.restart()
    if leaves:
        driver.exchange(heartbeat("c", -1))
    else:
        driver.advance(45_000)
    classic = driver.group()
    assert classic.state is GroupState.PREPARING_REBALANCE
    assert read_assignment(classic.members[MemberId(a)].assignment) <= {("t", 0), ("t", 1), ("t", 2)}


def test_a_static_member_whose_classic_group_cannot_be_written_is_not_registered() -> None:
    driver = driver_with_topic()
    driver.exchange(replace(heartbeat("a"), instance_id="i"))
    driver.auto = False
    token = driver.park(join(instance="i"))
    assert G in driver.core.groups
    driver.fail(ErrorCode.message_too_large)
    assert driver.response(token).error_code is not ErrorCode.none
    assert driver.core.consumer_groups[G].members.keys() == {"a"}
    assert {each.member_id for each in driver.core.registrations()} == {"a"}


def held(driver: Driver) -> dict[str, frozenset[tuple[str, int]] | None]:
    """Return the partitions with which each member is registered."""
    return {each.member_id: each.partitions for each in driver.core.registrations()}


def test_a_registration_is_not_overtaken_by_one_of_before_two_conversions() -> None:
    driver = driver_with_topic(group_consumer_assignment_interval_ms="0")
    driver.topics_known({**driver.topics, "u": TopicInfo(UUID(int=2), 1)})
    consumer = replace(heartbeat("a"), instance_id="i", topics=("u",))
    driver.exchange(consumer)
    b, c = (driver.exchange(join()).member_id for _ in range(2))
    driver.auto = False
    for request in (join(b), join(c), join(instance="i")):
        driver.park(request)
    assert G in driver.core.groups
    driver.park(replace(consumer, member_id=MemberId("a2")))
    group = driver.core.consumer_groups[G]
    before = held(driver)
    assert len(before[b] or ()) < 3
    driver.write_all()
    assert {member: len(held(driver)[member] or ()) for member in (b, c)} == {
        member: len(group.assignment_of(MemberId(member)).assigned) for member in (b, c)
    }
    assert held(driver)[b] == before[b]


def test_members_with_the_classic_protocol_alone_notice_that_a_topic_grows() -> None:
    """Kafka 4.4 looks at topics when a member with the consumer protocol heartbeats, and not before."""
    driver = driver_with_topic(group_consumer_migration_policy="upgrade")
    driver.exchange(replace(heartbeat("a"), instance_id="i"))
    member = driver.exchange(join(instance="i"))
    driver.exchange(sync(member.member_id, member.generation_id, instance="i"))
    assert driver.error(beat(member.member_id, member.generation_id, instance="i")) is ErrorCode.none
    driver.topics_known({"t": TopicInfo(UUID(int=1), 4)})
    driver.advance(5_000)
    moving = driver.error(beat(member.member_id, member.generation_id, instance="i"))
    assert moving is ErrorCode.rebalance_in_progress
    again = driver.exchange(join(member.member_id, instance="i"))
    assert again.generation_id > member.generation_id
    assert held(driver) == {member.member_id: {("t", index) for index in range(4)}}


def test_a_member_with_the_classic_protocol_does_not_inherit_a_regular_expression() -> None:
    driver = driver_with_topic(group_consumer_migration_policy="upgrade")
    driver.topics_known({**driver.topics, "u": TopicInfo(UUID(int=2), 1)})
    consumer = replace(heartbeat("a", regex="u"), instance_id="i")
    driver.exchange(consumer)
    driver.exchange(replace(consumer, member_epoch=1))
    driver.advance(5_000)
    driver.exchange(replace(consumer, member_epoch=driver.core.consumer_groups[G].assignment_of(MemberId("a")).epoch))
    assert ("u", 0) in (held(driver)["a"] or ())
    member = driver.exchange(join(instance="i"))
    assert held(driver) == {member.member_id: {("t", index) for index in range(3)}}
    assert not driver.core.consumer_groups[G].regexes


def test_who_was_joining_a_group_whose_conversion_fails_has_to_join_again() -> None:
    driver, a, b = two_classic_members(RANGE)
    driver.new_member(protocols=(RANGE,))
    driver.auto = False
    token = driver.park(heartbeat("d"))
    assert len(held(driver)) > 2
    driver.fail(ErrorCode.not_enough_replicas)
    assert driver.response(token).error_code is not ErrorCode.none
    assert held(driver).keys() == {a, b} == driver.group().members.keys()
    driver.auto = True
    driver.advance(60_000)
    assert driver.group().members.keys() <= {a, b}

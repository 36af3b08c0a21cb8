"""Sessions of members of consumer groups that end at the same time, as those of all that died around a failover."""

from __future__ import annotations

from dataclasses import replace

from kio.schema.errors import ErrorCode

from muster.actors.coordinator.batching import batches
from muster.actors.group.events import GroupEpochRaised, MemberExpired
from muster.actors.group.types import GroupId
from tests.group.consumer.test_steps import driver_with_topic, heartbeat
from tests.group.driver import Driver

SESSION_MS = 45_000
LIMIT_BYTES = 150_000
"""max.message.bytes of a log with less room than usual."""


def failed_over(groups: dict[str, int]) -> Driver:
    """Return a loaded coordinator of groups with that many members, of which none has been heard since."""
    driver = driver_with_topic()
    for group, members in groups.items():
        for number in range(members):
            driver.exchange(replace(heartbeat(f"{group}-{number:022}"), group_id=GroupId(group)))
    driver.restart()
    driver.auto = False
    driver.events.clear()
    return driver


def members_left(driver: Driver) -> dict[str, int]:
    return {name: len(group.members) for name, group in driver.core.consumer_groups.items() if group.members}


def test_members_of_many_groups_are_removed_in_writes_that_fit() -> None:
    driver = failed_over({f"group-{number}": 30 for number in range(20)})
    driver.advance(SESSION_MS)
    assert members_left(driver) == {}
    sizes = [batches(outcome.records, LIMIT_BYTES) for outcome in driver.unwritten]
    assert None not in sizes
    assert sum(isinstance(event, GroupEpochRaised) for event in driver.events) == 20


def test_members_of_one_group_are_removed_at_few_epochs() -> None:
    driver = failed_over({"group": 400})
    driver.advance(SESSION_MS)
    assert members_left(driver) == {}
    assert sum(isinstance(event, MemberExpired) for event in driver.events) == 400
    raised = sum(isinstance(event, GroupEpochRaised) for event in driver.events)
    assert 1 < raised < 10
    assert all(outcome.records for outcome in driver.unwritten)
    assert raised == len(driver.unwritten)


def test_a_removal_that_cannot_be_written_is_not_undone_with_those_of_other_groups() -> None:
    driver = failed_over({"a": 2, "b": 2})
    driver.now_ms += SESSION_MS
    outcome = driver.core.tick(driver.now_ms)
    assert outcome.write is not None
    driver.core.write_failed(outcome.write, ErrorCode.message_too_large, driver.now_ms)
    driver.advance(0)
    driver.write_all()
    assert members_left(driver) == {"a": 2}
    driver.advance(SESSION_MS)
    assert members_left(driver) == {}


def test_long_names_are_removed_in_writes_that_fit() -> None:
    driver = failed_over({"g" * 18_000: 60})
    driver.advance(SESSION_MS)
    assert members_left(driver) == {}
    assert None not in [batches(outcome.records, LIMIT_BYTES) for outcome in driver.unwritten]


def test_when_a_member_was_heard_counts_from_the_failover() -> None:
    driver = failed_over({"group": 2})
    began_ms, group = driver.now_ms, GroupId("group")
    driver.advance(3_000)
    heard_ms = driver.core.heard_ms(group)
    assert set(heard_ms.values()) == {began_ms}
    first = min(heard_ms)
    driver.auto = True
    driver.exchange(replace(heartbeat(first, 2), group_id=group))
    assert driver.core.heard_ms(group) == {**heard_ms, first: began_ms + 3_000}

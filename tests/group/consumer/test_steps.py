"""What one heartbeat of a consumer group must not leave behind, or hide."""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.config import MusterConfig, group_config
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.messages import ConsumerGroupHeartbeat, ListGroups
from muster.actors.group.types import MemberId
from tests.group.driver import Driver, G

TOO_LONG = "a" * 40_000
"""Longer than a string in a record's key."""


def driver_with_topic(*, auto: bool = True) -> Driver:
    driver = Driver(group_config(MusterConfig.from_properties({})), auto=auto)
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


def listed(driver: Driver) -> list[str]:
    return [row.group_id for row in driver.exchange(ListGroups(api_version=5)).groups]


@pytest.mark.parametrize("request_", [heartbeat(TOO_LONG), heartbeat("m", regex=TOO_LONG)], ids=["member", "regex"])
def test_a_name_that_does_not_fit_a_record_is_refused(request_: ConsumerGroupHeartbeat) -> None:
    driver = driver_with_topic()
    assert driver.error(request_) is ErrorCode.unknown_server_error
    assert listed(driver) == []


def test_a_step_that_raises_leaves_nothing_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = driver_with_topic()

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

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

"""A group's life in the table, from a real core."""

from __future__ import annotations

from typing import Any

from muster.actors.group.config import GroupConfig
from muster.actors.group.messages import DeleteGroups
from muster.actors.offsets.history.group_events import GroupEvents
from muster.actors.tables.schemas import TABLES
from muster.actors.tables.schemas.groups import GROUP_EVENTS
from tests.group.driver import HOST, Driver, G, join, leave

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=0)


def events_of(driver: Driver) -> list[dict[str, Any]]:
    """Rows of what one coordinator of the driver has reported so far."""
    fold = GroupEvents(partition=7, epoch=driver.epoch)
    found = [row for event in driver.events if (row := fold.observe(event, driver.now_ms)) is not None]
    assert [row["number"] for row in found] == [*range(1, len(found) + 1)]
    assert all(row.keys() <= set(TABLES[GROUP_EVENTS].names) for row in found)
    driver.events.clear()
    return found


def brief(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["event"], row["generation"], row["members"]) for row in found]


def test_from_the_first_member_to_the_end_of_the_group() -> None:
    driver = Driver(CONFIG)
    (member,) = driver.stable()
    driver.exchange(leave(member))
    driver.exchange(DeleteGroups(api_version=2, groups=(G,)))
    found = events_of(driver)
    assert brief(found) == [
        ("member_added", None, 1),
        ("generation", 1, 1),
        ("assignment", 1, 1),
        ("member_left", 1, 0),
        ("generation", 2, 0),
        ("group_removed", None, 0),
    ]
    assert [row.get("protocol") for row in found if row["event"] == "generation"] == ["range", None]
    who = {"member_id": member, "client_id": "c", "host": HOST, "group_instance_id": None}
    assert [row for row in found if who.items() <= row.items()] == [found[0], found[3]]


def test_who_is_silent_is_removed_and_why() -> None:
    driver = Driver(CONFIG)
    driver.stable()
    driver.advance(10_000)
    removed = next(row for row in events_of(driver) if row["event"] == "member_removed")
    assert (removed["reason"], removed["members"], removed["generation"]) == ("session expired", 0, 1)


def test_a_static_member_that_returns_has_another_id() -> None:
    driver = Driver(CONFIG)
    (old,) = driver.stable_static("i1")
    new = driver.exchange(join(instance="i1"), client="another", host="10.9.9.9").member_id
    replaced = events_of(driver)[-1]
    assert (replaced["event"], replaced["members"], replaced["generation"]) == ("static_member_replaced", 1, 1)
    assert (replaced["replaced_member_id"], replaced["member_id"]) == (old, new)
    assert (replaced["group_instance_id"], replaced["client_id"], replaced["host"]) == ("i1", "another", "10.9.9.9")


def test_after_a_failover_the_count_continues() -> None:
    driver = Driver(CONFIG)
    first, _ = driver.stable_static("i1", "i2")
    events_of(driver)
    driver.restart()
    driver.exchange(leave((first, "i1")))
    assert brief(events_of(driver))[:2] == [("restored", 1, 2), ("member_left", 1, 1)]

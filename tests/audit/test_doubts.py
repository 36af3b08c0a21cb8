"""Bytes that are sent for a group and that are not its own, told from those that it reads again."""

from __future__ import annotations

import pytest

from muster.actors.audit.doubts import AT_WORK_MS, MAX_DOUBTS
from muster.actors.audit.members import KEPT_MS, MemberPeriods, had_members
from muster.actors.audit.report import Cause
from muster.actors.group.events import MemberAdded, MemberLeft
from muster.actors.group.types import GroupId, MemberId, Who
from tests.audit.world import WAIT_MS, World, batches

REST_MS = 40_000
"""From the end of a group's consumer until another reader begins."""


@pytest.fixture
def world() -> World:
    """Return a world in which a consumer without membership has read and committed everything, and has gone."""
    made = World(batches(10))
    made.send(0, 100)
    made.commit(100, by_member=False)
    made.round()
    made.now_ms += REST_MS
    return made


def test_another_reader_with_the_label_of_a_group_that_has_ended(world: World) -> None:
    world.send(0, 100)
    world.round()
    assert world.drift() == {Cause.REREAD: 1_000}, "not judged yet"
    world.judged()
    assert world.drift() == {Cause.MISLABELLED: 1_000}
    assert world.row().unexplained_bytes == 1_000


def test_everything_is_heard_in_one_round() -> None:
    world = World(batches(10))
    world.send(0, 100)
    world.commit(100, by_member=False)
    world.send(0, 60)
    world.judged()
    assert world.drift() == {Cause.MISLABELLED: 600}


@pytest.mark.parametrize("offset", [100, 60, 0])
def test_a_commit_soon_afterwards_shows_that_the_group_read_again(world: World, offset: int) -> None:
    world.send(0, 60)
    world.judged()
    assert world.drift() == {Cause.MISLABELLED: 600}
    world.commit(offset, by_member=False)
    world.judged()
    assert world.drift() == {Cause.REREAD: 600}


def test_the_next_run_of_a_job_shows_nothing_of_another_reader(world: World) -> None:
    world.send(0, 100)
    world.judged()
    world.now_ms += AT_WORK_MS
    world.log += [(100, 110, 100)]
    world.send(100, 110)
    world.commit(110, by_member=False)
    world.judged()
    assert world.drift() == {Cause.MISLABELLED: 1_000}


def test_a_member_may_read_again_without_a_commit(world: World) -> None:
    world.members["g"] = [(world.now_ms, world.now_ms + 1_000)]
    world.send(0, 100)
    world.judged()
    assert world.drift() == {Cause.REREAD: 1_000}
    world.send(0, 100)
    world.judged()
    assert world.drift() == {Cause.REREAD: 1_000, Cause.MISLABELLED: 1_000}, "the member has left"


def test_what_was_sent_before_the_last_commit_and_settled_after_it(world: World) -> None:
    sent_ms = world.now_ms
    world.commit(0, by_member=False)
    world.commit(100, by_member=False)
    world.round()
    world.send(0, 100, at_ms=sent_ms)
    world.judged()
    assert world.drift() == {Cause.REREAD: 1_000}


def test_what_is_sent_again_from_where_the_group_has_gone_back_to(world: World) -> None:
    world.commit(50, by_member=False)
    world.send(50, 100)
    world.judged()
    assert world.drift() == {Cause.REREAD: 500}


def test_a_group_that_never_commits(world: World) -> None:
    for _ in range(2):
        world.send(0, 100, group="h")
        world.judged()
    assert world.drift("h") == {Cause.PREFETCH: 1_000, Cause.REREAD: 1_000}


def test_offsets_from_before_the_first_commit_that_was_observed() -> None:
    """Also if the group reads them itself later: then each is another's once, and its own once."""
    world = World(batches(10))
    world.commit(50, by_member=False, reported=False)
    world.send(50, 60)
    world.commit(60, by_member=False)
    world.send(0, 30)
    world.judged()
    assert world.drift() == {Cause.MISLABELLED: 300}
    world.now_ms += AT_WORK_MS
    world.commit(0, by_member=False)
    world.send(0, 60)
    world.commit(60, by_member=False)
    world.judged()
    assert world.drift() == {Cause.MISLABELLED: 300, Cause.REREAD: 100}


def test_where_the_group_is_missing_its_bytes_were_mislabelled_elsewhere(world: World) -> None:
    world.commit(0, "h", by_member=False)
    world.send(0, 100)
    world.commit(100, "h", by_member=False)
    world.judged()
    assert world.drift() == {Cause.MISLABELLED: 1_000}
    assert world.drift("h") == {Cause.MISLABELLED_ELSEWHERE: 1_000}


def test_nothing_is_judged_without_the_coordinator(world: World) -> None:
    world.members["g"] = None
    world.send(0, 100)
    world.judged()
    assert world.drift() == {Cause.REREAD: 1_000}
    world.members["g"] = []
    world.round()
    assert world.drift() == {Cause.MISLABELLED: 1_000}


def test_many_other_readers(world: World) -> None:
    for _ in range(MAX_DOUBTS + 10):
        world.send(0, 100)
        world.now_ms += WAIT_MS
        world.round()
    world.judged()
    assert world.drift() == {Cause.MISLABELLED: (MAX_DOUBTS + 10) * 1_000}


def test_when_a_group_had_members() -> None:
    present: set[str] = set()
    periods = MemberPeriods(present.__contains__, 1_000)
    group, who = GroupId("g"), Who(MemberId("m"), "c", "10.0.0.7", None)

    def had(at_ms: int, now_ms: int) -> bool:
        return had_members(periods.of(["g"], now_ms)["g"], at_ms)

    assert had(1_000, 2_000), "before it began, that is unknown"
    assert not had(1_500, 2_000)
    present.add("g")
    periods.observe(MemberAdded(group=group, member=who), 2_000)
    assert [had(at_ms, 3_000) for at_ms in (1_999, 2_000, 3_000)] == [False, True, True]
    present.clear()
    left = MemberLeft(
        group=group, member_id=who.member_id, client_id="c", host=who.host, group_instance_id=None, reason=None
    )
    periods.observe(left, 4_000)
    assert [had(at_ms, 5_000) for at_ms in (2_000, 4_000, 4_001)] == [True, True, False]
    assert had(4_001, 5_001 + KEPT_MS), "after an hour, that is forgotten"

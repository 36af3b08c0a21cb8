"""Spans of offsets, the outbox that delivers exactly once, and its entries for commits and sends."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from muster.actors.audit import spans
from muster.actors.audit.commits import CommitSteps, Step
from muster.actors.audit.outbox import Outbox
from muster.actors.audit.sends import Run, Sends
from muster.actors.audit.spans import Spans
from muster.actors.audit.topics import KEPT_MS
from muster.actors.group.events import OffsetsCommitted
from muster.actors.group.types import GroupId, MemberId
from muster.actors.tables.rollup import Rollup, Sample
from muster.placement.view import Topic

FIRST, SECOND = UUID(int=1), UUID(int=2)
topic_ids = {"t": FIRST}
_SETS = st.frozensets(st.integers(0, 20))


def as_spans(offsets: frozenset[int]) -> Spans:
    found: Spans = ()
    for offset in offsets:
        found = spans.union(found, ((offset, offset + 1),))
    return found


@given(_SETS, _SETS, st.integers(0, 21))
def test_spans_are_sets(left: frozenset[int], right: frozenset[int], offset: int) -> None:
    a, b = as_spans(left), as_spans(right)
    assert spans.union(a, b) == as_spans(left | right)
    assert spans.minus(a, b) == as_spans(left - right)
    assert spans.common(a, b) == as_spans(left & right)
    assert spans.below(a, offset) == as_spans(frozenset(each for each in left if each < offset))
    around = spans.run_around(a, offset)
    assert (around is not None) == (offset in left)
    assert around is None or (around in a and around[0] <= offset < around[1])


def step(before: int | None, offset: int, *, by_member: bool = True, at_ms: int = 0) -> Step:
    return Step(before, offset, by_member, at_ms)


def test_the_first_session_gets_everything_since_the_beginning() -> None:
    outbox: Outbox[str, Step] = Outbox("p")
    outbox.add("k", step(0, 1))
    first = outbox.take("s", 0)
    outbox.add("k", step(1, 2))
    second = outbox.take("s", first.number)
    assert (first.entries, second.entries) == ({"k": (step(0, 1),)}, {"k": (step(1, 2),)})
    assert first.life == second.life
    assert first.whole


def test_what_was_not_received_comes_again() -> None:
    outbox: Outbox[str, Step] = Outbox("p")
    first = outbox.take("s", 0)
    outbox.add("k", step(0, 1))
    lost = outbox.take("s", first.number)
    outbox.add("k", step(5, 6))
    again = outbox.take("s", first.number)
    assert lost.entries == {"k": (step(0, 1),)}
    assert again.entries == {"k": (step(0, 1), step(5, 6))}
    assert outbox.take("s", again.number).entries == {}
    assert first.life == again.life


def test_another_session_begins_another_life() -> None:
    outbox: Outbox[str, Step] = Outbox("p")
    first = outbox.take("s", 0)
    outbox.add("k", step(0, 1))
    second = outbox.take("r", 0)
    assert second.entries == {}
    assert second.life != first.life
    assert not second.whole


def test_too_much_that_is_not_collected_is_dropped_and_reported() -> None:
    outbox: Outbox[int, Step] = Outbox("p", most_items=10)
    first = outbox.take("s", 0)
    for key in range(11):
        outbox.add(key, step(0, 1))
    outbox.add(99, step(0, 1))
    second = outbox.take("s", first.number)
    assert second.entries == {}
    assert second.life != first.life


def committed(before: int | None, offset: int, *, by_member: bool = True) -> OffsetsCommitted:
    return OffsetsCommitted(
        group=GroupId("g"),
        generation=1 if by_member else None,
        member_id=MemberId("m") if by_member else None,
        client_id="client",
        host="10.0.0.7",
        partitions=(("t", 0, before, offset),),
    )


def test_commits_that_follow_each_other_are_one_step() -> None:
    steps = CommitSteps("p", topic_ids.get)
    number = steps.take("s", 0).number
    for before, offset in ((None, 3), (3, 5), (5, 5), (5, 9), (9, 2), (2, 4)):
        steps.observe(committed(before, offset), 0)
    steps.observe(committed(4, 8, by_member=False), 0)
    assert steps.take("s", number).entries["g", "t", FIRST, 0] == (
        step(None, 3),
        step(3, 9),
        step(9, 2),
        step(2, 4),
        step(4, 8, by_member=False),
    )


def test_a_topic_that_is_created_again_has_steps_of_its_own() -> None:
    ids = {"t": FIRST}
    steps = CommitSteps("p", ids.get)
    steps.observe(committed(None, 3), 0)
    steps.observe(committed(3, 5), 0)
    ids["t"] = SECOND
    steps.observe(committed(None, 5), 0)
    del ids["t"]
    steps.observe(committed(5, 4), 0)
    assert steps.take("s", 0).entries == {
        ("g", "t", FIRST, 0): (step(None, 3), step(3, 5)),
        ("g", "t", SECOND, 0): (step(None, 5),),
    }


def topics(topic_id: UUID | None) -> dict[str, Topic]:
    return {} if topic_id is None else {"t": Topic(name="t", topic_id=topic_id, partitions=1)}


def sample(group: str | None, first: int, last: int, client_id: str = "c", at_ms: int = 0) -> Sample:
    return Sample(
        ts_ms=at_ms,
        group=group,
        member_id=None,
        client_id=client_id,
        host="h",
        topic="t",
        partition=0,
        evidence="none",
        reason=None if group else "no_group",
        messages=last - first + 1,
        bytes=10,
        first_offset=first,
        last_offset=last,
    )


def test_a_topic_that_is_created_again_has_runs_of_its_own() -> None:
    """Rows come when their attribution is final, perhaps much later than they were sent."""
    sends = Sends("p")
    for topic_id, at_ms in ((FIRST, 0), (None, 10), (SECOND, 20), (SECOND, 30)):
        sends.follow(topics(topic_id), at_ms)
    rollup = Rollup()
    for client_id, at_ms in (("a", 5), ("b", 15), ("c", 20)):
        rollup.add(sample("g", 0, 9, client_id, at_ms))
    sends.add(rollup.rows())
    assert sends.take("s", 0).entries == {
        ("g", "t", FIRST, 0): (Run(0, 10, 10, 5),),
        ("g", "t", SECOND, 0): (Run(0, 10, 10, 15), Run(0, 10, 10, 20)),
    }
    sends.follow(topics(SECOND), 11 + KEPT_MS)
    sends.add(rollup.rows())
    assert [run.at_ms for run in sends.take("s", 1).entries["g", "t", SECOND, 0]] == [5, 15, 20]


def test_rows_of_samples_become_runs() -> None:
    rollup = Rollup()
    for each in (sample("g", 0, 9), sample("g", 10, 19), sample("g", 0, 9, "d"), sample(None, 0, 9)):
        rollup.add(each)
    sends = Sends("p")
    sends.follow(topics(FIRST), 0)
    number = sends.take("s", 0).number
    sends.add(rollup.rows())
    entries = sends.take("s", number).entries
    assert set(entries) == {("g", "t", FIRST, 0), (None, "t", FIRST, 0)}
    assert set(entries["g", "t", FIRST, 0]) == {Run(0, 20, 20, 0), Run(0, 10, 10, 0)}

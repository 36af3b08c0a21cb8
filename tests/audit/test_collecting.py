"""Spans of offsets, the outbox that delivers exactly once, and its entries for commits and sends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.actors.audit import spans
from muster.actors.audit.commits import CommitSteps, Step
from muster.actors.audit.outbox import Outbox
from muster.actors.audit.sends import Run, Sends
from muster.actors.audit.spans import Spans
from muster.actors.group.events import GroupDeleted, OffsetsCommitted
from muster.actors.group.types import GroupId, MemberId
from muster.actors.tables.rollup import Rollup, Sample

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
    steps = CommitSteps("p")
    number = steps.take("s", 0).number
    steps.observe(GroupDeleted(group=GroupId("g")), 0)
    for before, offset in ((None, 3), (3, 5), (5, 5), (5, 9), (9, 2), (2, 4)):
        steps.observe(committed(before, offset), 0)
    steps.observe(committed(4, 8, by_member=False), 0)
    assert steps.take("s", number).entries[("g", "t", 0)] == (
        step(None, 3),
        step(3, 9),
        step(9, 2),
        step(2, 4),
        step(4, 8, by_member=False),
    )


def test_rows_of_samples_become_runs() -> None:
    def sample(group: str | None, first: int, last: int, client_id: str = "c") -> Sample:
        return Sample(
            ts_ms=0,
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

    rollup = Rollup()
    for each in (sample("g", 0, 9), sample("g", 10, 19), sample("g", 0, 9, "d"), sample(None, 0, 9)):
        rollup.add(each)
    sends = Sends("p")
    number = sends.take("s", 0).number
    sends.add(rollup.rows())
    entries = sends.take("s", number).entries
    assert set(entries) == {("g", "t", 0), (None, "t", 0)}
    assert set(entries["g", "t", 0]) == {Run(0, 20, 20, 0), Run(0, 10, 10, 0)}

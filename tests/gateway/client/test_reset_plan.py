"""Old and new offsets, and the number of messages between them, as in kafka-consumer-groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.client.groups.offsets import Committed, Partition
from muster.gateway.client.groups.reset_plan import (
    Bounds,
    CannotReset,
    Choice,
    effect,
    plan,
    remarks,
    restoration,
    shift_by,
    to_current,
    to_earliest,
    to_latest,
    to_listed,
    to_offset,
    to_time,
    totals,
    without,
)

T0: Partition = ("t", 0)
LOG = Bounds(10, 100)
BEFORE, BEYOND = "is before the earliest offset", "is beyond the latest offset"


@pytest.mark.parametrize(
    ("choice", "old", "new", "read_again", "skipped", "note"),
    [
        (to_earliest, 60, 10, 50, 0, None),
        (to_earliest, None, 10, None, None, None),
        (to_latest, 60, 100, 0, 40, None),
        (to_current, 60, 60, 0, 0, None),
        (to_current, None, 100, None, None, "no offset was committed: to the end"),
        (to_offset(70), 60, 70, 0, 10, None),
        (to_offset(5), 60, 10, 50, 0, f"5 {BEFORE}"),
        (to_offset(1 << 62), 60, 100, 0, 40, f"{1 << 62} {BEYOND}"),
        (shift_by(-20), 60, 40, 20, 0, None),
        (shift_by(-60), 60, 10, 50, 0, f"0 {BEFORE}"),
        (shift_by(41), 60, 100, 0, 40, f"101 {BEYOND}"),
        (to_time({T0: 33}), 60, 33, 27, 0, None),
        (to_time({T0: None}), 60, 100, 0, 40, "no record that late: to the end"),
        (to_listed({T0: 77}), 60, 77, 0, 17, None),
        (to_earliest, 3, 10, 0, 0, None),  # committed, but removed since: no messages in between
        (to_latest, 120, 100, 0, 0, None),
        (to_offset(50), 120, 50, 50, 0, None),
    ],
)
def test_one_partition(
    choice: Choice, old: int | None, new: int, read_again: int | None, skipped: int | None, note: str | None
) -> None:
    committed = {} if old is None else {T0: Committed(old, 7, "mine")}
    [change] = plan(choice, [T0], committed, {T0: LOG})
    assert change.row() == {
        "topic": "t",
        "partition": 0,
        "old_offset": old,
        "offset": new,
        "read_again": read_again,
        "skipped": skipped,
        "note": note,
    }
    assert change.is_one == (old != new)


def test_what_is_not_committed_cannot_be_shifted() -> None:
    with pytest.raises(CannotReset, match="t-0 has no committed offset"):
        plan(shift_by(1), [T0], {}, {T0: LOG})


def test_the_effect_in_words() -> None:
    keys = [("t", 0), ("t", 1), ("t", 2)]
    bounds = dict.fromkeys(keys, LOG)
    late = to_time(dict.fromkeys(keys))
    some = plan(late, keys, {("t", 1): Committed(60)}, bounds)
    depends = "where nothing is committed, it depends on auto.offset.reset"
    assert (
        effect(some, executed=True) == f"0 messages will be read again, 40 skipped, unknown in 2 partitions: {depends}"
    )
    nothing = effect(plan(late, keys, {}, bounds), executed=False)
    assert nothing == f"it is unknown how many messages would be read again or skipped: {depends}"
    assert remarks(some) == ["t-0, t-1, t-2: no record that late: to the end"]
    assert remarks(plan(to_earliest, keys, {}, bounds)) == []


@pytest.mark.parametrize(
    ("committed", "hint"),
    [
        ({("t", 1), ("u", 0), ("t", 2)}, "; leave it out: --topic t:1,2 --topic u:0"),
        ({("t", each) for each in range(1, 30)}, "; --all-topics takes only partitions that have one"),
        (set(), ""),
        ({("other", 1)}, ""),
    ],
)
def test_how_to_leave_out_what_is_not_committed(committed: set[Partition], hint: str) -> None:
    wanted = [("u", 0), *(("t", each) for each in range(30))]
    assert without(wanted, committed) == hint


def test_by_topic_and_partition_with_totals() -> None:
    keys = [("b", 10), ("a", 2), ("b", 9), ("a", 1)]
    committed = {("b", 10): Committed(20), ("a", 2): Committed(90), ("b", 9): Committed(60)}
    changes = plan(to_offset(50), keys, committed, dict.fromkeys(keys, LOG))
    assert [change.partition for change in changes] == sorted(keys)
    assert totals(changes) == (40 + 10, 30)


def test_offset_zero_is_not_no_offset() -> None:
    log = Bounds(0, 5)
    [change] = plan(to_earliest, [T0], {}, {T0: log})
    assert change.is_one
    [change] = restoration({T0: None}, {T0: Committed(0)}, {T0: log})
    assert change.is_one
    assert change.after is None


@given(
    bounds=st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: Bounds(pair[0], sum(pair))),
    old=st.integers(0, 150),
    wanted=st.integers(-100, 200),
)
def test_new_offsets_are_in_the_log_and_counts_are_what_lies_between(bounds: Bounds, old: int, wanted: int) -> None:
    [change] = plan(to_offset(wanted), [T0], {T0: Committed(old)}, {T0: bounds})
    assert change.after is not None
    new = change.after.offset
    assert bounds.earliest <= new <= bounds.latest
    messages = range(bounds.earliest, bounds.latest)
    assert change.read_again == len([offset for offset in messages if new <= offset < old])
    assert change.skipped == len([offset for offset in messages if old <= offset < new])


def test_an_undo_restores_exactly_what_was() -> None:
    was = Committed(5, 3, "mine")
    gone: Partition = ("gone", 0)
    before = {T0: was, ("t", 1): None, gone: Committed(1)}
    committed = {T0: Committed(60), ("t", 1): Committed(70)}
    first, second = restoration(before, committed, {T0: LOG, ("t", 1): LOG})
    assert (first.after, first.read_again, first.skipped) == (was, 50, 0)
    assert (second.before, second.after, second.read_again) == (Committed(70), None, None)

"""How many members a group should have, in simulated time."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.gateway.client.errors import InvalidScaling
from muster.gateway.client.scaling.rates import PartitionLag, Rates, partition_lags
from muster.gateway.client.scaling.sizing import Sizing
from tests.gateway.client.scaling.simulated_group import TOPIC, SimulatedGroup, Step

PARTITIONS = 8
WORLDS: list[dict[str, Any]] = [
    {},
    {"says_owners": False},
    {"says_ages": False},
    {"commit_s": 5.0},
    {"commit_s": 5.0, "rebalance_s": 3.0, "says_owners": False},
    {"look_s": 3.0, "rebalance_s": 2.0},
]


def evenly(load: Callable[[float], float]) -> Callable[[float, int], float]:
    """Spread the load, in records per second, over all partitions."""
    return lambda now_s, _: load(now_s) / PARTITIONS


def burst(now_s: float) -> float:
    return 2000 if 30 <= now_s < 60 else 50 if now_s < 200 else 0


def doubling(_: float, rows: Sequence[PartitionLag], members: int) -> int:
    """Twice as many members while records are late."""
    behind = [row for row in rows if row.is_unread]
    late = max(row.lag_s or 0.0 for row in rows) > 10
    size = max(members, 1)
    return min(size * 2 if late else size, len(behind), 8) if behind else 0


def growths(steps: Sequence[Step]) -> list[tuple[float, int, int]]:
    """When the size grew, from what to what."""
    return [(step.at_s, before.size, step.size) for before, step in pairwise(steps) if step.size > before.size]


def row(committed: int | None, end: int | None, lag_s: float | None = 0.0, partition: int = 0) -> PartitionLag:
    return PartitionLag(TOPIC, partition, committed, end, lag_s)


def test_a_burst_is_read_as_early_as_by_many_members_at_a_third_of_the_time() -> None:
    by_rates = SimulatedGroup(evenly(burst)).run(Sizing().look, 300)
    by_doubling = SimulatedGroup(evenly(burst)).run(doubling, 300)
    always = SimulatedGroup(evenly(burst)).run(lambda *_: 8, 300)
    for name, group in (("rates", by_rates), ("doubling while late", by_doubling), ("always 8", always)):
        print(f"{name}: oldest {group.oldest_s} s, late until {group.late_s} s, {group.member_s:.0f} member seconds")
    assert by_rates.oldest_s < always.oldest_s + 5
    assert by_rates.oldest_s < by_doubling.oldest_s * 0.75
    assert by_rates.late_s is not None
    assert by_rates.late_s < 60 + 20
    assert by_rates.member_s < min(always.member_s / 3, by_doubling.member_s)
    assert by_rates.sizes[:2] == [1, 8]
    assert by_rates.sizes[-1] == 0


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_a_burst_in_other_worlds(world: dict[str, Any]) -> None:
    group = SimulatedGroup(evenly(burst), **world).run(Sizing().look, 300)
    assert group.late_s is not None
    assert group.late_s < 95
    assert max(group.sizes) == 8
    assert group.sizes[-1] == 0
    assert group.member_s < 900


@pytest.mark.parametrize("world", WORLDS, ids=str)
@pytest.mark.parametrize("load", [60, 250, 400, 700, 1500])
def test_a_steady_load_is_read_in_time_without_a_change(load: float, world: dict[str, Any]) -> None:
    """After a beginning with a backlog, as the first member needs 20 s."""
    sizing = Sizing()
    group = SimulatedGroup(evenly(lambda _: load), **world).run(sizing.look, 200)
    group.oldest_s, begun = 0.0, len(group.steps)
    group.run(sizing.look, 900)
    assert len({step.size for step in group.steps[begun:]}) == 1
    assert group.oldest_s < 10
    assert load / group.rate < group.sizes[-1] <= math.ceil(load / group.rate * 1.5) + 1


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_a_ramp_is_followed(world: dict[str, Any]) -> None:
    """From 100/s, for one member, to 2,000/s, for seven, within four minutes."""
    sizing = Sizing()
    group = SimulatedGroup(evenly(lambda now_s: min(100 + max(now_s - 60, 0) * 8, 2000)), **world).run(sizing.look, 60)
    group.oldest_s = 0.0
    group.run(sizing.look, 400)
    assert group.oldest_s < 20 + 10
    assert group.sizes[-1] in (7, 8)
    first_s = next(step.at_s for step in group.steps if step.size > 1 and step.at_s > 60)
    assert first_s < 60 + 40


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_one_partition_needs_one_member_however_much_it_lags(world: dict[str, Any]) -> None:
    group = SimulatedGroup(lambda now_s, partition: 2000 if partition == 3 and now_s < 60 else 0, **world)
    group.run(Sizing().look, 600)
    assert group.sizes == [1, 0]


def test_two_hot_partitions_of_eight_get_no_more_than_they_and_the_others_need() -> None:
    group = SimulatedGroup(lambda now_s, partition: 200 if partition < 2 else 5).run(Sizing().look, 400)
    assert max(group.sizes) <= 3


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_a_stopped_producer(world: dict[str, Any]) -> None:
    group = SimulatedGroup(evenly(lambda now_s: 1500 if now_s < 150 else 0), **world).run(Sizing().look, 400)
    read_s = next(
        step.at_s for step in group.steps if step.at_s > 150 and not any(each.is_unread for each in step.rows)
    )
    stopped_s = next(step.at_s for step in group.steps if step.at_s > 150 and step.size == 0)
    assert 30 <= stopped_s - read_s <= 30 + 2 * group.look_s
    assert group.steps[-1].size == 0


def test_the_first_unread_record_starts_a_member_at_once() -> None:
    sizing = Sizing()
    assert sizing.look(0, [row(5, 5)], 0) == 0
    assert sizing.look(1, [row(5, 6)], 0) == 1
    assert sizing.look(2, [row(5, 6)], 0) == 1


def test_a_burst_that_two_looks_have_seen_needs_one_decision() -> None:
    """Three partitions have records a second earlier than the others, and are late a second earlier."""
    sizing, sizes = Sizing(start_s=6), [0]
    for now_s in range(12):
        read = 100 * max(now_s - 2, 0)
        rows = [
            row(read if partition == 0 else 0, 1_500 * (partition < 3 or now_s > 0), None, partition)
            for partition in range(8)
        ]
        sizes.append(sizing.look(now_s, rows, sizes[-1]))
    assert sizes == [0, *[1] * 6, *[8] * 6]


def test_what_cannot_be_read_in_time_is_not_waited_for() -> None:
    """The rate of the first member shows it."""
    sizing, sizes = Sizing(high=16, start_s=30), [0]
    for now_s in range(30):
        rows = [row(100 * max(now_s - 2, 0) if not partition else 0, 1_500, None, partition) for partition in range(8)]
        sizes.append(sizing.look(now_s, rows, sizes[-1]))
    assert sizing.rate == pytest.approx(100)
    assert sizes == [0, *[1] * 6, *[8] * 24]


def test_also_again_when_the_last_one_has_just_been_stopped() -> None:
    sizing = Sizing(idle_s=5)
    sizing.look(0, [row(0, 1)], 0)
    sizes = [sizing.look(now_s, [row(1, 1)], 1) for now_s in range(1, 8)]
    assert sizes == [1, 1, 1, 1, 1, 0, 0]
    assert sizing.look(8, [row(1, 2)], 0) == 1


def test_a_group_whose_records_are_read_before_each_look_is_not_idle() -> None:
    sizing = Sizing()
    assert {sizing.look(now_s, [row(now_s, now_s)], 1) for now_s in range(200)} == {1}


def test_the_rate_of_a_member_is_not_that_of_idle_ones() -> None:
    """At 250 records per second, a member that can read 300 waits now and then; then three are idle still more."""
    sizing = Sizing(low=4)
    group = SimulatedGroup(evenly(lambda _: 250), start_s=0).run(sizing.look, 300)
    assert sizing.rate is None
    group.arrival = evenly(lambda now_s: 2000 if now_s < 310 else 250)
    group.run(sizing.look, 400)
    assert sizing.rate == pytest.approx(300, rel=0.05)
    group.run(sizing.look, 2000)
    assert sizing.rate == pytest.approx(300, rel=0.05)
    assert group.sizes[-1] == 4


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_the_rate_of_a_member_whatever_it_commits(world: dict[str, Any]) -> None:
    sizing = Sizing()
    SimulatedGroup(evenly(lambda _: 1300), **world).run(sizing.look, 90)
    assert sizing.rate == pytest.approx(300, rel=0.25)


def test_offsets_that_jump_back_are_no_negative_rates() -> None:
    """The group begins anew with a backlog that takes one member five minutes, and the topic is made anew."""
    sizing = Sizing(high=4)
    seen: list[int] = []
    ends = [1_000 * (now_s + 1) for now_s in range(100)]
    committed = [min(300 * now_s, end) for now_s, end in enumerate(ends)]
    history = [
        *zip(committed, ends, strict=True),
        *((300 * now_s, 100_000) for now_s in range(60)),  # reset to the earliest record
        *((0, 10 * now_s) for now_s in range(30)),  # another topic of that name, and no commit yet
        *((300, 300 + now_s) for now_s in range(30)),  # committed at the beginning of it
    ]
    for now_s, (position, end) in enumerate(history):
        rows = [row(position, end, None, partition) for partition in range(4)]
        seen.append(sizing.look(now_s, rows, seen[-1] if seen else 0))
        assert sizing.rate is None or sizing.rate > 0
        assert 0 <= seen[-1] <= 4
    assert max(seen) == 4
    assert sizing.rate is not None
    assert sizing.rate < 4 * 300 + 1


def test_a_commit_beyond_the_end_is_no_lag() -> None:
    sizing = Sizing(idle_s=5)
    assert sizing.look(0, [row(9, 3, None)], 1) == 1
    assert sizing.look(5, [row(9, 3, None)], 1) == 0


@pytest.mark.parametrize("members", [0, 3])
def test_an_unknown_end_keeps_what_runs(members: int) -> None:
    sizing = Sizing(idle_s=5)
    sizes = [sizing.look(now_s, [row(5, 5, 0.0, 1), row(5, None, None)], members) for now_s in range(100)]
    assert {*sizes} == {members}


def test_an_unknown_end_does_not_hide_what_is_unread_elsewhere() -> None:
    sizing = Sizing()
    assert sizing.look(0, [row(5, 6, 0.0, 1), row(5, None, None)], 0) == 1


def test_records_without_a_commit_are_for_one_member_while_nobody_knows_who_reads_them() -> None:
    """Neither is a group whose consumers begin at the end stopped before it has begun."""
    sizing = Sizing()
    sizes = [sizing.look(0, [], 0)]
    for now_s in range(1, 200):
        rows = [row(None, 1_000_000, None, partition) for partition in range(8)]
        sizes.append(sizing.look(now_s, rows, sizes[-1]))
    assert sizes == [0, *[1] * 199]


def test_a_group_that_begins_at_the_beginning_needs_members_for_all_partitions() -> None:
    """Its first member reads one after the other, so that most have no commit yet."""
    sizing, sizes = Sizing(), [0]
    for now_s in range(40):
        first = row(100 * now_s or None, 1_000_000, None)
        sizes.append(sizing.look(now_s, [first, *(row(None, 10_000, None, each) for each in range(1, 5))], sizes[-1]))
    assert sizes[-1] == 5


def test_a_group_that_begins_at_the_end_is_stopped_when_it_has_read_what_came() -> None:
    sizing, sizes = Sizing(idle_s=10), [0]
    for now_s in range(40):
        first = row(None, 1_000, None) if now_s < 5 else row(1_001, 1_001)
        sizes.append(sizing.look(now_s, [first, row(None, 10_000, None, 1)], sizes[-1]))
    assert sizes == [0, *[1] * 15, *[0] * 25]


def test_a_log_whose_records_were_deleted_is_not_unread() -> None:
    sizing = Sizing()
    assert sizing.look(0, [row(None, 10, None)._replace(begin=10)], 0) == 0
    assert sizing.look(1, [row(None, 11, None)._replace(begin=10)], 0) == 1


def test_members_are_not_stopped_before_it_is_known_what_one_does() -> None:
    """A supervisor that has lost its state finds eight."""
    group = SimulatedGroup(evenly(lambda _: 2000), start_s=0)
    group.run(lambda *_: 8, 60)
    sizing, begun = Sizing(), len(group.steps)
    group.run(sizing.look, 300)
    assert min(step.size for step in group.steps[begun:]) >= 7


def test_members_that_are_too_many_are_stopped_one_by_one_while_nobody_knows_what_one_does() -> None:
    group = SimulatedGroup(evenly(lambda _: 50), start_s=0)
    group.run(lambda *_: 8, 60)
    group.run(Sizing().look, 800)
    assert group.sizes == [8, 7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("start_s", [5.0, 20.0, 60.0])
def test_members_that_take_long_to_start_are_waited_for(start_s: float) -> None:
    group = SimulatedGroup(evenly(lambda now_s: 20 * now_s), start_s=start_s)
    group.run(Sizing(start_s=start_s).look, 400)
    times = [at_s for at_s, _, _ in growths(group.steps)]
    assert len(times) >= 2
    assert all(later - earlier >= start_s for earlier, later in pairwise(times))


def test_waiting_begins_when_the_members_are_there() -> None:
    """A caller may take its time to add them, as Serve's upscale_delay_s does; and then much more comes."""
    sizing, members = Sizing(high=16, start_s=20), 1
    sizes: list[int] = []
    for now_s in range(120):
        more = 2_000 * max(now_s - 76, 0)
        rows = [row(100 * now_s, 150 * now_s + 100 + more, None, partition) for partition in range(16)]
        members = 1 if now_s < 60 else members if now_s < 75 else sizes[74] if now_s < 76 else sizes[-1]
        sizes.append(sizing.look(now_s, rows, members))
    assert 1 < sizes[59] < 16
    assert sizes[74:95] == [sizes[74]] * 21
    assert sizes[119] == 16


def test_partitions_that_do_not_lag_are_no_reason_for_more_members_than_lag() -> None:
    """Four have a backlog that takes a member minutes; four others are read as fast as records come."""
    sizing, sizes = Sizing(), [1]
    for now_s in range(100):
        late = [row(10 * now_s, 50_000, 100.0 + now_s, partition)._replace(member_id="a") for partition in range(4)]
        read = [row(40 * now_s, 40 * now_s, 0.0, partition)._replace(member_id="b") for partition in range(4, 8)]
        sizes.append(sizing.look(now_s, [*late, *read], sizes[-1]))
    assert sizing.rate == pytest.approx(40)
    assert (max(sizes), sizes[-1]) == (4, 4)


def test_members_stay_between_two_bursts() -> None:
    """A burst of 20 s each 45 s: eight members are needed each time, and one in between."""
    sizing = Sizing()
    group = SimulatedGroup(evenly(lambda now_s: 1900 if now_s % 45 < 20 else 100), start_s=5).run(sizing.look, 200)
    begun = len(group.steps)
    group.run(sizing.look, 600)
    assert min(step.size for step in group.steps[begun:]) >= 7


def test_a_load_at_the_border_of_two_sizes() -> None:
    """480 records per second are 80 % of what two members read, a bit more and a bit less in turn."""
    group = SimulatedGroup(evenly(lambda now_s: 480 + 25 * math.sin(now_s / 15))).run(Sizing().look, 1_000)
    late = [step.size for step in group.steps if step.at_s > 200]
    assert sum(one != other for one, other in pairwise(late)) <= 1


def test_a_group_that_stays_idle_for_days() -> None:
    """Rates become smaller than any number that can be divided by."""
    sizing = Sizing(1, 8, idle_s=1e9)
    SimulatedGroup(evenly(lambda _: 1_000 if sizing.rate is None else 0)).run(sizing.look, 120)
    assert sizing.rate is not None
    rows = [row(10**6, 10**6, 0.0, partition) for partition in range(8)]
    assert [sizing.look(120 + 500 * step, rows, 1) for step in range(200)][-1] == 1


def looks(rates: Rates, history: Sequence[Sequence[PartitionLag]], members: Sequence[int]) -> list[float | None]:
    """Look once per second; return the rate of a member each time."""
    found = []
    for now_s, (rows, count) in enumerate(zip(history, members, strict=True)):
        rates.look(now_s, rows, count, smooth_s=1.0, all_read=True)
        found.append(rates.one)
    return found


def test_a_rate_is_of_the_same_members_from_start_to_end() -> None:
    """Two read 100 per second each, then one of them alone; who reads what is not known."""
    committed = [[100 * now_s, 100 * now_s] for now_s in range(12)]
    committed += [[1_100 + 50 * now_s, 1_100 + 50 * now_s] for now_s in range(1, 20)]
    history = [[row(offset, 10**6, None, index) for index, offset in enumerate(each)] for each in committed]
    found = looks(Rates(), history, [2] * 12 + [1] * 19)
    assert found[3] is None
    assert {*found[4:]} == {100.0}


def test_few_records_are_no_burst() -> None:
    """One each ten seconds."""
    rates, found = Rates(), []
    for now_s in range(1_000):
        rates.look(now_s, [row(now_s // 10, now_s // 10, 0.0)], 1, smooth_s=1.25, all_read=True)
        found.append(rates.seen[TOPIC, 0].arrival)
    assert all(arrival is not None and 0.08 < arrival < 0.12 for arrival in found[300:])


def test_the_bounds_may_change() -> None:
    sizing = Sizing(low=2, high=4)
    assert sizing.look(0, [row(1, 1)], 0) == 2
    sizing.low, sizing.high = 5, 6
    assert sizing.look(1, [row(1, 1)], 2) == 5
    sizing.low, sizing.high = 0, 1
    assert sizing.look(2, [row(1, 1)], 5) == 1


@pytest.mark.parametrize("jump_s", [-1_000.0, 100_000.0])
def test_another_clock(jump_s: float) -> None:
    """After a restart on another host, the rate is not wrong, and the group is not stopped as idle."""
    sizing, jumped = Sizing(), False
    group = SimulatedGroup(evenly(lambda _: 700))

    def look(now_s: float, rows: Sequence[PartitionLag], members: int) -> int:
        return sizing.look(now_s + jump_s * jumped, rows, members)

    group.run(look, 200)
    size, rate, begun, jumped = group.sizes[-1], sizing.rate, len(group.steps), True
    group.run(look, 400)
    assert {step.size for step in group.steps[begun:]} == {size}
    assert sizing.rate == rate
    idle = Sizing(idle_s=30)
    assert idle.look(0, [row(1, 1)], 3) == 3
    assert idle.look(jump_s, [row(1, 1)], 3) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        {"low": -1},
        {"low": 3, "high": 2},
        {"target_s": 0},
        {"target_s": math.nan},
        {"target_s": math.inf},
        {"start_s": -1},
        {"idle_s": math.nan},
        {"down_s": math.inf},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidScaling, match="choose"):
        Sizing(**arguments)


def test_rows_of_a_response() -> None:
    base = {"topic": "t", "lag": None, "lag_s": None, "member_id": None, "client_id": "c", "host": "h"}
    without = {**base, "committed_offset": None, "end_offset": 7}
    response = {
        "partitions": [
            {**base, "partition": 0, "committed_offset": 3, "end_offset": 7, "lag_s": 1.5, "member_id": "m"}
            | {"messages_without_commit": 0},
            {**without, "partition": 1, "messages_without_commit": 0},
            {**without, "partition": 2, "messages_without_commit": 7},
            {**without, "partition": 3, "messages_without_commit": None, "end_offset": None},
        ]
    }
    assert partition_lags(response) == [
        PartitionLag("t", 0, 3, 7, 1.5, "m", 7),
        PartitionLag("t", 1, None, 7, None, None, 7),
        PartitionLag("t", 2, None, 7, None, None, 0),
        PartitionLag("t", 3, None, None, None),
    ]


phases = st.lists(
    st.tuples(
        st.integers(5, 60),
        st.lists(st.sampled_from([0.0, 0.05, 0.3, 0.9, 3.0]), min_size=4, max_size=4),
        st.sampled_from(["", "", "", "unknown", "reset", "recreated", "uncommitted"]),
    ),
    min_size=1,
    max_size=4,
)
"""How long, how many records come to each partition in the time in which a member reads one, and a disturbance."""
worlds = st.fixed_dictionaries(
    {
        "start_s": st.sampled_from([0.0, 5.0, 20.0]),
        "commit_s": st.sampled_from([0.0, 1.0, 5.0]),
        "look_s": st.sampled_from([0.5, 1.0, 4.0]),
        "rate": st.sampled_from([2.0, 50.0, 1_000.0]),
        "says_owners": st.booleans(),
        "says_ages": st.booleans(),
    }
)


def disturbed(rows: Sequence[PartitionLag], how: str, moment: float) -> tuple[PartitionLag, ...]:
    """Return rows that a look is shown instead."""
    first, *others = rows
    committed, end = first.committed or 0, first.end or 0
    shown = {
        "": first,
        "unknown": first._replace(end=None, lag_s=None),
        "reset": first._replace(committed=int(committed * moment)),
        "recreated": first._replace(end=int(end * moment), lag_s=None),
        "uncommitted": first._replace(committed=None, lag_s=None),
    }
    return (shown[how], *others)


@settings(max_examples=60)
@given(phases=phases, world=worlds, low=st.integers(0, 2), more=st.integers(0, 6), copies=st.booleans())
def test_whatever_happens(
    phases: list[tuple[int, list[float], str]], world: dict[str, Any], low: int, more: int, copies: bool
) -> None:
    """Bounds, one growth per start_s from two members on, none above the partitions that lag or that something came to.

    In the end, ``low``.
    """
    sizing = Sizing(low, low + more, start_s=world["start_s"], idle_s=25)
    phase, begun_s, how = 0, 0.0, ""
    shown: list[tuple[PartitionLag, ...]] = []

    def arrival(_: float, partition: int) -> float:
        return phases[phase][1][partition] * world["rate"] if phase < len(phases) else 0.0

    def look(now_s: float, rows: Sequence[PartitionLag], members: int) -> int:
        nonlocal sizing
        shown.append(disturbed(rows, how, 0.5 + (now_s * 7 % 10) / 20))
        if copies:
            sizing = pickle.loads(pickle.dumps(sizing))
        size = sizing.look(now_s, shown[-1], members)
        assert sizing.rate is None or sizing.rate > 0
        assert all((each.arrival or 0.0) >= 0 for each in sizing._rates.seen.values())
        return size

    group = SimulatedGroup(arrival, partitions=4, **world)
    for phase, (span_s, _, how) in enumerate(phases):  # noqa: B007
        begun_s += span_s
        group.run(look, begun_s)
    phase, how = len(phases), ""
    while any(each.is_unread for each in group.rows()) and low + more:
        group.run(look, group.now_s + 20)
    group.run(look, group.now_s + 60)

    steps = group.steps
    assert all(low <= step.size <= low + more for step in steps)
    assert steps[-1].size == low
    last_s = -math.inf
    for index in range(1, len(steps)):
        before, step = steps[index - 1], steps[index]
        if step.size <= before.size:
            continue
        assert before.size <= 1 or step.at_s - last_s >= world["start_s"]
        last_s = step.at_s
        recent = [rows for rows, old in zip(shown[: index + 1], steps, strict=False) if old.at_s >= step.at_s - 400]
        moved = {each.partition for rows, later in pairwise(recent) for each in moved_in(rows, later)}
        lagging = {each.partition for each in shown[index] if each.is_unread}
        assert step.size <= max(len(lagging | moved), low)


def moved_in(rows: Sequence[PartitionLag], later: Sequence[PartitionLag]) -> list[PartitionLag]:
    return [new for old, new in zip(rows, later, strict=True) if old.end != new.end]


@given(ends=st.lists(st.integers(0, 50), min_size=6, max_size=6), rate=st.integers(1, 200), high=st.integers(1, 8))
def test_a_backlog_to_which_nothing_comes_gets_no_more_members_than_partitions_lag(
    ends: list[int], rate: int, high: int
) -> None:
    sizing, committed, size, read_s = Sizing(high=high), [0] * 6, 0, 0
    for now_s in range(6_000):
        rows = [row(committed[index], ends[index] * 20, float(now_s), index) for index in range(6)]
        size, before = sizing.look(now_s, rows, size), size
        lagging = [index for index, each in enumerate(rows) if each.is_unread]
        assert size <= max(before, len(lagging))
        read_s = now_s if lagging else read_s
        if now_s - read_s > 31:
            break
        for index in lagging[:size]:
            committed[index] = min(committed[index] + rate, ends[index] * 20)
    assert size == 0

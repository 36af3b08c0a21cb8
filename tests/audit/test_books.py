"""Each cause by hand, and any history: the causes always add up, and nothing that was sent is lost."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.actors.audit.report import MORE, Cause
from tests.audit.world import PLACE, WAIT_MS, World, batches


def totals(world: World, group: str = "g") -> tuple[int, int]:
    row = world.row(group)
    return row.attributed_bytes, row.implied_bytes


def test_everything_read_once_and_committed() -> None:
    world = World(batches(10))
    for first, end in ((0, 30), (30, 70), (70, 100)):
        world.send(first, end)
        world.commit(end)
        world.round()
    assert totals(world) == (1_000, 1_000)
    assert world.drift() == {}


def test_commits_in_the_middle_of_batches() -> None:
    world = World(batches(10))
    world.send(0, 100)
    world.commit(25)
    world.round()
    assert totals(world) == (1_000, 200)
    assert world.drift() == {Cause.PREFETCH: 800}
    world.commit(99)
    world.round()
    assert world.drift() == {Cause.PREFETCH: 100}
    world.commit(100)
    world.judged()
    assert world.drift() == {}


def test_what_is_fetched_and_not_committed_is_prefetch() -> None:
    world = World(batches(10))
    world.send(0, 100)
    world.round()
    assert totals(world) == (1_000, 0)
    assert world.drift() == {Cause.PREFETCH: 1_000}


def test_read_again() -> None:
    world = World(batches(10))
    world.send(0, 100)
    world.commit(100)
    world.send(0, 50)
    world.commit(50)
    world.judged()
    assert totals(world) == (1_500, 1_000)
    assert world.drift() == {Cause.REREAD: 500}


def test_a_batch_that_is_sent_again_for_its_second_half() -> None:
    world = World(batches(2))
    world.send(0, 10)
    world.commit(5)
    world.send(5, 20)
    world.commit(20)
    world.judged()
    assert world.drift() == {Cause.REREAD: 100}


def test_sent_from_before_the_commits_and_never_committed() -> None:
    world = World(batches(10))
    world.commit(50, reported=False)
    world.send(0, 100)
    world.commit(100)
    world.judged()
    assert totals(world) == (1_000, 500)
    assert world.drift() == {Cause.REREAD: 500}


def test_a_member_that_seeks_forward() -> None:
    world = World(batches(10))
    world.send(0, 20)
    world.commit(20)
    world.send(60, 100)
    world.commit(100)
    world.round()
    assert world.drift() == {Cause.WAITING: 400}
    world.judged()
    assert totals(world) == (600, 1_000)
    assert world.drift() == {Cause.RESET: 400}


def test_an_admin_that_moves_the_group_forward() -> None:
    world = World(batches(10))
    world.send(0, 20)
    world.commit(20)
    world.commit(80, by_member=False)
    world.send(80, 100)
    world.commit(100)
    world.judged()
    assert world.drift() == {Cause.ADMIN_COMMIT: 600}


def test_an_admin_that_moves_the_group_back() -> None:
    world = World(batches(10))
    world.send(0, 100)
    world.commit(100)
    world.commit(0, by_member=False)
    world.send(0, 100)
    world.commit(100)
    world.judged()
    assert totals(world) == (2_000, 1_000)
    assert world.drift() == {Cause.REREAD: 1_000}


def test_what_a_reset_jumped_over_and_is_read_after_all() -> None:
    world = World(batches(10))
    world.commit(0)
    world.commit(100)
    world.judged()
    world.send(0, 100)
    world.round()
    assert world.drift() == {Cause.RESET: 1_000, Cause.REREAD: 1_000}


def test_an_attribution_that_was_lost() -> None:
    world = World(batches(10))
    world.send(0, 30)
    world.commit(30)
    world.send(30, 70, group=None)
    world.commit(70)
    world.send(70, 100)
    world.commit(100)
    world.judged()
    assert totals(world) == (600, 1_000)
    assert world.drift() == {Cause.LOST: 400}
    assert world.row().unexplained_bytes == 400


def test_attributions_that_were_lost_from_the_beginning() -> None:
    world = World(batches(10))
    world.send(20, 60, group=None)
    world.commit(60)
    world.judged()
    assert world.drift() == {Cause.LOST: 400}


def test_an_attribution_that_comes_late_is_not_lost() -> None:
    world = World(batches(10))
    world.commit(0)
    world.commit(50)
    world.round()
    assert world.drift() == {Cause.WAITING: 500}
    world.now_ms += WAIT_MS - 2_000
    world.send(0, 50)
    world.judged()
    assert world.drift() == {}


def test_where_a_first_commit_began_is_found_when_its_bytes_are_settled() -> None:
    world = World(batches(10))
    sent_ms = world.now_ms
    world.send(40, 50)
    world.commit(50)
    world.round()
    world.send(0, 40, at_ms=sent_ms)
    world.judged()
    assert totals(world) == (500, 500)
    assert world.drift() == {}


def test_a_first_commit_of_an_admin_implies_nothing() -> None:
    world = World(batches(10))
    world.send(0, 100, group=None)
    world.commit(50, by_member=False)
    world.judged()
    world.send(50, 100)
    world.commit(100)
    world.judged()
    assert totals(world) == (500, 500)
    assert world.drift() == {}


def test_bytes_that_went_to_another_group() -> None:
    world = World(batches(10))
    world.commit(0)
    world.send(0, 100, group="h")
    world.commit(100, group="h")
    world.send(0, 60, group="h")
    world.commit(100)
    world.judged()
    assert world.drift() == {Cause.MISLABELLED_ELSEWHERE: 600, Cause.RESET: 400}
    assert world.drift("h") == {Cause.MISLABELLED: 600}


def test_another_group_that_reads_everything_once_is_no_evidence() -> None:
    world = World(batches(10))
    world.commit(0)
    world.send(0, 100, group="h")
    world.commit(100, group="h")
    world.commit(100)
    world.judged()
    assert world.drift() == {Cause.RESET: 1_000}
    assert world.drift("h") == {}


def test_what_may_have_been_sent_before_the_audit_began_is_unknown() -> None:
    world = World(batches(10), begun=False)
    world.log += [(100, 110, 70)]
    world.commit(50, reported=False)
    world.commit(110)
    world.judged()
    assert world.drift() == {Cause.UNKNOWN: 500, Cause.RESET: 70}


def test_what_a_lost_gateway_did_not_report_is_unknown() -> None:
    world = World(batches(10))
    world.commit(0)
    world.commit(100)
    world.books.lost_count()
    world.judged()
    assert world.drift() == {Cause.UNKNOWN: 1_000}


def test_commits_that_a_lost_coordinator_did_not_report_are_unknown() -> None:
    world = World(batches(10))
    world.send(0, 20)
    world.commit(0)
    world.commit(20)
    world.commit(60, reported=False)
    world.send(60, 100)
    world.commit(100)
    world.judged()
    assert world.drift() == {Cause.UNKNOWN: 400}


def test_commits_that_a_lost_coordinator_did_not_report_and_that_were_sent() -> None:
    world = World(batches(10))
    world.send(0, 100)
    world.commit(0)
    world.commit(20)
    world.commit(60, reported=False)
    world.commit(100)
    world.judged()
    assert world.drift() == {}


def test_retention_took_what_was_committed_past() -> None:
    world = World(batches(10))
    world.commit(0)
    world.log_start_offset = 60
    world.send(60, 100)
    world.commit(100)
    world.judged()
    assert totals(world) == (400, 400)
    assert world.drift() == {}
    assert world.row().removed_offsets == 60


def test_retention_took_what_was_sent_before_it_was_measured() -> None:
    world = World(batches(10))
    world.send(0, 100)
    world.log_start_offset = 60
    world.commit(100)
    world.judged()
    assert totals(world) == (1_000, 400)
    assert world.drift() == {Cause.RETENTION: 600}


def test_compaction_leaves_holes_between_responses() -> None:
    world = World([(0, 10, 100), (13, 20, 80), (27, 30, 60)])
    position = world.send(0, 10)
    position = world.send(position, 20)
    assert world.send(position, 30) == 30
    world.commit(30)
    world.judged()
    assert totals(world) == (240, 240)
    assert world.drift() == {}


def test_compaction_that_came_after_the_commit() -> None:
    world = World(batches(10))
    world.send(0, 50)
    world.log = [(0, 50, 120), *world.log[5:]]
    world.commit(50)
    world.judged()
    assert world.drift() == {Cause.RETENTION: 380}


def test_nothing_is_judged_while_a_source_is_not_heard() -> None:
    world = World(batches(10))
    world.commit(0)
    world.commit(100)
    for _ in range(3):
        world.now_ms += WAIT_MS
        world.round(complete=False)
    assert world.drift() == {Cause.WAITING: 1_000}
    world.round()
    assert world.drift() == {Cause.RESET: 1_000}


def test_a_log_that_does_not_respond_is_queried_again() -> None:
    world = World(batches(10))
    world.send(0, 100)
    world.commit(0)
    world.commit(100)
    world.round(answered=False)
    assert world.books.rows() == []
    world.judged()
    assert totals(world) == (1_000, 1_000)


def test_a_commit_beyond_the_end_of_the_log() -> None:
    world = World(batches(10))
    world.send(0, 100)
    world.commit(1_000)
    world.judged()
    assert totals(world) == (1_000, 1_000)
    assert world.drift() == {}


def test_a_topic_that_is_made_anew_begins_anew() -> None:
    world = World(batches(10))
    world.send(0, 100)
    world.commit(100)
    world.round()
    earlier, world.topic_id = world.topic_id, UUID(int=2)
    world.send(0, 50)
    world.round()
    world.send(0, 100, topic_id=earlier)
    world.send(0, 100, None, topic_id=earlier)
    world.commit(80, topic_id=earlier)
    world.commit(0)
    world.commit(50)
    world.judged()
    assert totals(world) == (500, 500)
    assert world.drift() == {}


def test_what_was_sent_of_an_earlier_topic_is_no_evidence() -> None:
    world = World(batches(10))
    earlier, world.topic_id = world.topic_id, UUID(int=2)
    world.send(0, 100, None, topic_id=earlier)
    world.commit(0)
    world.commit(100)
    world.judged()
    assert world.drift() == {Cause.RESET: 1_000}


def test_a_topic_that_is_gone_is_forgotten() -> None:
    world = World(batches(10))
    world.send(0, 100)
    world.round()
    world.books.queries([])
    assert world.books.rows() == []


def test_of_too_many_the_last_are_left_out() -> None:
    world = World(batches(10))
    world.books._most_series = 1
    world.send(0, 100)
    world.send(0, 100, group="h")
    world.round()
    assert [row.group for row in world.books.rows()] == ["g"]
    assert world.books.left_out == 1


def test_two_groups_and_the_offsets_that_are_queried() -> None:
    world = World(batches(10))
    world.send(0, 30)
    world.commit(25)
    queries = world.books.queries([PLACE])
    assert set(queries) == {PLACE}
    assert {0, 25, 30} <= set(queries[PLACE])
    world.round()
    assert world.books.queries([PLACE, ("u", 0)]).keys() == {PLACE}, "the first commit is still open"


_ENDS = st.integers(0, 100)
_ACTS = st.one_of(
    st.tuples(st.just("send"), _ENDS, _ENDS, st.sampled_from(["g", "h", None])),
    st.tuples(st.just("commit"), _ENDS, st.booleans(), st.sampled_from(["g", "h"])),
    st.tuples(st.just("round"), st.booleans()),
)


@given(st.lists(_ACTS, max_size=40))
@settings(max_examples=150)
def test_causes_add_up_in_any_history(acts: list[tuple[object, ...]]) -> None:
    """While the log is unchanged, no rest is attributed to retention, and no more than that is ever implied."""
    world = World(batches(10))
    for act in acts:
        match act:
            case ("send", int(first), int(end), group) if first < end:
                world.send(first, end, group)  # type: ignore[arg-type]
            case ("commit", int(offset), bool(by_member), str(group)):
                world.commit(offset, group, by_member=by_member)
            case ("round", bool(complete)):
                world.now_ms += 150_000
                world.round(complete=complete)
    world.judged()
    for row in world.books.rows():
        assert Cause.RETENTION not in row.drift_bytes
        assert all(size > 0 for size in row.drift_bytes.values())
        signed = sum(size if cause in MORE else -size for cause, size in row.drift_bytes.items())
        assert row.attributed_bytes - row.implied_bytes == signed
        assert row.implied_bytes <= 1_000


_ANYTHING = st.one_of(
    st.tuples(st.just("send"), _ENDS, _ENDS, st.sampled_from(["g", "h", None])),
    st.tuples(st.just("commit"), st.integers(-3, 130), st.booleans(), st.booleans(), st.sampled_from(["g", "h"])),
    st.tuples(st.just("removed"), _ENDS),
    st.tuples(st.just("lost"), st.none()),
    st.tuples(st.just("round"), st.booleans(), st.booleans()),
)


@given(st.booleans(), st.lists(_ANYTHING, max_size=30))
@settings(max_examples=150)
def test_no_history_breaks_a_round(begun: bool, acts: list[tuple[object, ...]]) -> None:
    """Sizes are requested wherever they are needed, and retention explains the rest."""
    world = World(batches(10), begun=begun)
    for act in acts:
        match act:
            case ("send", int(first), int(end), group) if max(first, world.log_start_offset) < end:
                world.send(max(first, world.log_start_offset), end, group)  # type: ignore[arg-type]
            case ("commit", int(offset), bool(by_member), bool(reported), str(group)):
                world.commit(offset, group, by_member=by_member, reported=reported)
            case ("removed", int(offset)):
                world.log_start_offset = max(world.log_start_offset, offset)
            case ("lost", _):
                world.books.lost_count()
            case ("round", bool(complete), bool(answered)):
                world.now_ms += 150_000
                world.round(complete=complete, answered=answered)
    world.judged()
    for row in world.books.rows():
        signed = sum(size if cause in MORE else -size for cause, size in row.drift_bytes.items())
        assert row.attributed_bytes - row.implied_bytes == signed
        assert Cause.WAITING not in row.drift_bytes


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.lists(_ENDS, max_size=12), st.integers(1, 9))
@settings(max_examples=60)
def test_whatever_is_read_once_and_committed_has_no_drift(fetches: list[int], commits: list[int], records: int) -> None:
    world = World(batches(100 // records + 1, records=records))
    end, position = world.log[-1][1], 0
    commit_offsets = iter(sorted(commits))
    for size in fetches:
        if position < end:
            position = world.send(position, position + size)
        world.commit(min(next(commit_offsets, position), position))
        world.round()
    world.commit(position)
    world.judged()
    assert world.drift() == {}
    assert totals(world) == (world.measure((position,)).bytes_before[position],) * 2

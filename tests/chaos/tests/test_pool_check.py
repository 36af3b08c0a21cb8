"""Records that are lost or handled twice, and partitions that are taken over, as the plan ``pool`` sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.chaos.pools.check import Owners, handled, is_in_flight, takeovers_s
from tests.chaos.pools.journal import Batch, Death, History, Journals, batches_of

ENDS = {0: 2}
BOTH = frozenset({(0, 0), (0, 1)})


def death(at_s: float, kind: str = "worker", pid: int = 1) -> Death:
    return Death(at_s, kind, pid, client_id="c-1", partitions=[0])


def test_a_record_that_nobody_handled_is_lost() -> None:
    entered = Batch(1, 0.0, BOTH)
    assert handled(History([death(1.0)], [entered]), ENDS).lost == BOTH
    assert not handled(History([], [Batch(1, 0.0, BOTH, handled_s=1.0)]), ENDS).lost


def test_a_repetition_needs_a_kill_that_explains_it() -> None:
    first = Batch(1, 0.0, BOTH, handled_s=1.0)
    again = Batch(2, 5.0, frozenset({(0, 1)}), handled_s=6.0, committed_s=7.0)
    for deaths in ([], [death(2.0, pid=3)], [death(2.0, "supervisor")], [death(2.0, "driver")], [death(-1.0)]):
        assert handled(History(deaths, [first, again]), ENDS).twice == {(0, 1)}
    for deaths in ([death(2.0)], [death(2.0, "group coordinator", 9)]):
        found = handled(History(deaths, [first, again]), ENDS)
        assert (found.twice, found.twice_in_flight) == (frozenset(), {(0, 1)})


def test_a_third_time_needs_an_explanation_of_its_own() -> None:
    batches = [Batch(pid, pid, BOTH, handled_s=pid + 0.5) for pid in (1, 2, 3)]
    assert handled(History([death(1.7)], batches), ENDS).twice == BOTH
    assert not handled(History([death(1.7), death(2.7, pid=2)], batches), ENDS).twice


def test_a_batch_that_was_committed_before_the_kill_is_not_in_flight() -> None:
    batch = Batch(1, 0.0, BOTH, handled_s=1.0, committed_s=1.5)
    assert not is_in_flight(batch, death(2.0))
    assert is_in_flight(batch, death(1.2))
    assert not is_in_flight(batch, death(-0.1))


def test_lines_become_batches(tmp_path: Path) -> None:
    """The last one was entered, and its process killed."""
    written: list[dict[str, Any]] = [
        {"entered_s": 1.0, "offsets": {"0": [0, 1], "1": [5]}},
        {"handled_s": 2.0},
        {"committed_s": 3.0, "offsets": {"0": 2}},
        {"entered_s": 4.0, "offsets": {"0": [2]}},
        {"handled_s": 5.0},
        {"committed_s": 6.0, "offsets": {"0": 3, "1": 6}},
        {"entered_s": 7.0, "offsets": {"0": [3]}},
    ]
    first, second, last = batches_of(7, iter(written))
    assert first == Batch(7, 1.0, frozenset({(0, 0), (0, 1), (1, 5)}), 2.0, 6.0)
    assert second == Batch(7, 4.0, frozenset({(0, 2)}), 5.0, 6.0)
    assert last == Batch(7, 7.0, frozenset({(0, 3)}))
    journals = Journals(tmp_path)
    for line in written:
        journals.write(line)
    journals.note_death(death(8.0))
    found = journals.history()
    assert found.deaths == [death(8.0)]
    assert [each.entered_s for each in found.batches] == [1.0, 4.0, 7.0]


def test_partitions_are_taken_over_by_members_that_live() -> None:
    """A new worker may have the ``client.id`` of the dead one, not its member id. The next one dies, too."""
    seen = [
        Owners(0.5, {"m1": "c-1", "m2": "c-2"}, {0: "m1"}),
        Owners(1.5, {"m1": "c-1", "m2": "c-2"}, {0: "m1"}),
        Owners(2.0, {"m2": "c-2"}, {}),
        Owners(2.2, {"m2": "c-2"}, {0: "m2"}),
        Owners(4.0, {"m2": "c-2"}, {0: "m2"}),
        Owners(6.0, {"m3": "c-1"}, {0: "m3"}),
    ]
    assert takeovers_s([death(1.0)], seen) == [2.2 - 1.0]
    second = Death(3.0, "worker", 2, client_id="c-2", partitions=[0])
    assert takeovers_s([death(1.0), second], seen) == [2.2 - 1.0, 3.0]
    assert takeovers_s([death(1.0)], seen[:3]) == [None]
    assert takeovers_s([Death(1.0, "worker", 2, client_id="c-2")], seen) == []

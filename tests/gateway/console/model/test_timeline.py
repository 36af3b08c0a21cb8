from __future__ import annotations

from muster.actors.tables.rebalance_entry import Ending, Wait, Waits
from muster.gateway.console.model.journal import Journal, read_entries
from muster.gateway.console.model.timeline import HANDED_OUT, JOIN, PAUSED, SYNC, event
from tests.gateway.console.model.entries import entry, who


def test_phases_follow_each_other() -> None:
    found = event(entry(began_ms=1_000, ended_ms=4_500))
    assert [(phase.kind, phase.start_ms, phase.end_ms) for phase in found.phases] == [
        (JOIN, 1_000, 3_000),
        (SYNC, 3_000, 4_000),
        (HANDED_OUT, 4_000, 4_500),
        (PAUSED, 1_000, 4_000),
    ]
    assert found.title == "member joined: new"
    assert found.summary == (
        "1 member became 2; slow rejoined last, after 2.0\xa0s; 1 partition not consumed for up to 3.0\xa0s"
    )


def test_a_rebalance_that_restarted_has_no_sync() -> None:
    waits = Waits((Wait(who("gone"), None, 9_000),))
    found = event(
        entry(
            joined_ms=None, stable_ms=None, ended_ms=9_000, ending=Ending.RESTARTED, join_waits=waits, generation=None
        )
    )
    assert [phase.kind for phase in found.phases] == [JOIN, PAUSED]
    assert "gone never rejoined, after 9.0\xa0s" in found.summary
    assert found.summary.endswith("restarted by the next")
    assert ("Generation", "1 → not completed, from state Stable") in [(fact.name, fact.text) for fact in found.facts]


def test_the_journal_keeps_an_entry_once_and_forgets() -> None:
    journal = Journal(max_entries=3)
    first = entry(1)
    assert journal.add([first, first]) == [first]
    assert journal.add([first]) == []
    assert journal.add([entry(9, ending=Ending.RUNNING)]) == []
    journal.add(entry(number, began_ms=number * 60_000) for number in (2, 3, 4))
    assert [each.number for each in journal.of_group("g")] == [4, 3, 2]
    assert dict(journal.per_minute(now_ms=240_000, minutes=3)) == {120_000: 1, 180_000: 1, 240_000: 1}
    journal.forget(before_ms=200_000)
    assert [each.number for each in journal.of_group("g")] == [4]


def test_entries_of_a_newer_gateway_are_left_out() -> None:
    good = entry(1).to_json()
    assert read_entries([good, {**good, "cause": "a cause of the future"}, {}, None]) == [entry(1)]

"""The queries ``journal`` and ``recent`` of a coordinator, for readers of all groups."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.actors.offsets.history.rebalances import RebalanceHistory
from muster.actors.offsets.history.recent import Recent, Since
from muster.actors.runtime.process import now_ms
from muster.actors.tables.rebalance_entry import RebalanceEntry
from muster.actors.tables.rebalances import RebalanceStore, encode
from tests.offsets.shell import Shell, run
from tests.tables.rebalances import entry

SIZE_BYTES = len(encode(entry(1)))
Keep = Callable[[RebalanceEntry], None]


def filled(*groups: str, per_group: int = 100, most_bytes: int = 1 << 20) -> Recent:
    recent = Recent(per_group=per_group, most_bytes=most_bytes)
    for number, group in enumerate(groups, start=1):
        made = entry(number, group=group)
        recent.add(made, encode(made))
    return recent


def test_entries_come_in_the_order_in_which_they_ended() -> None:
    """A rebalance that began later may end earlier."""
    recent = Recent()
    for number, group in ((2, "b"), (1, "a"), (3, "b")):
        made = entry(number, group=group)
        recent.add(made, encode(made))
    part = recent.since(0, 1 << 20)
    assert [json.loads(kept.encoded)["number"] for kept in part.entries] == [2, 1, 3]
    assert [kept.count for kept in part.entries] == [1, 2, 3]
    assert (part.count, part.lost, part.more) == (3, 0, False)
    assert recent.since(3, 1 << 20) == Since((), 3, 0, False)
    assert recent.since(99, 1 << 20) == Since((), 3, 0, False)


def test_a_late_reader_learns_how_many_it_has_missed() -> None:
    recent = filled("a", "b", "a", "a", "a", per_group=2)
    part = recent.since(1, 1 << 20)
    assert [kept.count for kept in part.entries] == [2, 4, 5]
    assert part.lost == 1
    assert recent.since(0, 1 << 20).lost == 2
    assert filled(*"abcdef", most_bytes=SIZE_BYTES * 5 // 2).since(0, 1 << 20).lost == 4


def test_parts_are_bounded_and_add_up() -> None:
    recent = filled("a", "b", "a", "a", "a", "c", per_group=2)
    count, lost, found = 0, 0, []
    for _ in range(9):
        part = recent.since(count, SIZE_BYTES * 5 // 2)
        assert len(part.entries) <= 2
        found += [kept.count for kept in part.entries]
        count, lost = part.count, lost + part.lost
        if not part.more:
            break
    assert (found, lost, count) == ([2, 4, 5, 6], 2, 6)
    assert len(recent.since(0, 1).entries) == 1


@pytest.fixture
def with_history(tmp_path: Path) -> Callable[[Callable[[RebalanceHistory, Keep], Awaitable[None]], int], None]:
    """Run a scenario with the journal of a coordinator of that leader epoch, and what keeps an entry in it."""

    def within(scenario: Callable[[RebalanceHistory, Keep], Awaitable[None]], epoch: int) -> None:
        async def run_it() -> None:
            shell = Shell(tmp_path / f"log-{epoch}", epoch)
            store = RebalanceStore(tmp_path / "metrics", 0, now_ms=now_ms)
            history = RebalanceHistory(shell.partition, store, flush_ms=60_000, now_ms=now_ms)
            await scenario(history, history.keep)
            await shell.partition.stop()
            await history.close()

        run(run_it)

    return within


def numbers(response: dict[str, Any]) -> list[int]:
    return [json.loads(text)["number"] for _, text in response["entries"]]


def test_a_cursor_leads_to_what_has_ended_since(with_history: Any) -> None:
    async def scenario(history: RebalanceHistory, keep: Keep) -> None:
        keep(entry(1))
        begin = history.journal({})
        assert begin == {"after": [5, 1], "entries": [], "lost": 0, "more": False}
        keep(entry(3, group="other"))
        keep(entry(2))
        found = history.journal({"after": begin["after"]})
        assert numbers(found) == [3, 2]
        assert json.loads(found["entries"][0][1]) == {"v": 1, **entry(3, group="other").to_json()}
        assert (found["after"], found["lost"], found["more"]) == ([5, 3], 0, False)
        assert [count for count, _ in found["entries"]] == [2, 3]
        small = history.journal({"after": begin["after"], "max_bytes": 1})
        assert (numbers(small), small["after"], small["more"]) == ([3], [5, 2], True)
        assert numbers(history.journal({"after": [0, 0], "since_ms": entry(2).ended_ms})) == [3, 2]

    with_history(scenario, 5)


def test_another_coordinators_cursor_leads_to_all_that_is_here(with_history: Any) -> None:
    """How many of the other one's entries are missing is not known, and said so; of no coordinator's, none are."""

    async def scenario(history: RebalanceHistory, keep: Keep) -> None:
        for number in (1, 2):
            keep(entry(number))
        for epoch, lost in ((4, None), (6, None), (0, 0)):
            found = history.journal({"after": [epoch, 1 if epoch else 0]})
            assert (numbers(found), found["lost"], found["after"]) == ([1, 2], lost, [5, 2])

    with_history(scenario, 5)


def test_the_last_of_all_groups_newest_first(with_history: Any) -> None:
    async def scenario(history: RebalanceHistory, keep: Keep) -> None:
        assert history.recent({}) == {"entries": [], "more": False}
        for number, group in enumerate("abcd", start=1):
            keep(entry(number, group=group))

        def found(**query: Any) -> tuple[list[int], bool]:
            response = history.recent(query)
            return [json.loads(text)["number"] for text in response["entries"]], response["more"]

        assert found() == ([4, 3, 2, 1], False)
        assert found(limit=3) == ([4, 3, 2], True)
        assert found(limit=4) == ([4, 3, 2, 1], False)
        assert found(since_ms=entry(3).ended_ms) == ([4, 3], False)
        assert found(max_bytes=2 * SIZE_BYTES) == ([4, 3], True)

    with_history(scenario, 5)


@pytest.mark.parametrize(
    "bad", [{"after": 7}, {"after": [1]}, {"after": ["1", 2]}, {"since_ms": "x"}, {"max_bytes": None}, {"limit": 0}]
)
def test_queries_that_make_no_sense(with_history: Any, bad: dict[str, Any]) -> None:
    async def scenario(history: RebalanceHistory, keep: Keep) -> None:
        assert "error" in (history.recent if "limit" in bad else history.journal)(bad)

    with_history(scenario, 5)

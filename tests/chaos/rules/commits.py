"""Committed offsets: a register for each group and partition.

A fetch returns what the last commit wrote. An acknowledged commit took effect between its begin and its end; any other
one did not take effect before its begin. So a value is legal if some commit of it may have taken effect after what was
certainly there last. That is weaker than "it never decreases": a commit whose response was lost may take effect late,
in Kafka as here. Where all commits have a response, it is not weaker.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from math import inf

from tests.chaos.history import Commit, Fetched, History, Place

UNRESOLVED_S = 60.0
"""After this time an unanswered commit request is no longer in flight: it is longer than any fault and any timeout."""
CommitKey = tuple[str, Place]


def commits_are_kept(history: History) -> Iterator[str]:
    """Require OffsetFetch never to return an older offset than was acknowledged, or returned, before its request."""
    commits: dict[CommitKey, list[Commit]] = defaultdict(list)
    for commit in (*_fenced(history), *_in_transactions(history)):
        commits[commit.group, commit.place].append(commit)
    fetched: dict[CommitKey, list[Fetched]] = defaultdict(list)
    for found in history.fetched:
        fetched[found.group, found.place].append(found)
    for key, responses in sorted(fetched.items()):
        yield from _register(key, commits[key], responses)


def _register(key: CommitKey, commits: list[Commit], responses: list[Fetched]) -> Iterator[str]:
    known = _Latest()
    acked = sorted((commit for commit in commits if commit.acked), key=lambda commit: commit.end_s)
    by_value: dict[int, list[Commit]] = defaultdict(list)
    for commit in commits:
        by_value[commit.offset].append(commit)
    seen = sorted(responses, key=lambda response: response.end_s)
    for response in sorted(responses, key=lambda response: response.begin_s):
        while acked and acked[0].end_s < response.begin_s:
            known.add(acked[0].begin_s, acked[0].offset)
            acked.pop(0)
        while seen and seen[0].end_s < response.begin_s:
            if seen[0].offset >= 0:
                known.add(seen[0].begin_s, seen[0].offset)
            seen.pop(0)
        floor_s, by = known.latest_other(response.offset)
        # A library that commits automatically also commits the start offset before it has read anything.
        legal = (response.offset <= 0 and floor_s == -inf) or any(
            commit.begin_s < response.end_s and commit.end_s >= floor_s for commit in by_value[response.offset]
        )
        if not legal:
            group, (topic, partition) = key
            found = "nothing" if response.offset < 0 else str(response.offset)
            yield (
                f"{group} on {topic}-{partition}: OffsetFetch at {response.begin_s:.2f} s found {found},"
                f" {by} was committed at {floor_s:.2f} s"
            )


class _Latest:
    """The last value that was certainly there, and the last different one."""

    def __init__(self) -> None:
        self._last = self._other = (-inf, -1)

    def add(self, at_s: float, value: int) -> None:
        if value == self._last[1]:
            self._last = max(self._last, (at_s, value))
        elif at_s >= self._last[0]:
            self._last, self._other = (at_s, value), self._last
        else:
            self._other = max(self._other, (at_s, value))

    def latest_other(self, value: int) -> tuple[float, int]:
        return self._other if value == self._last[1] else self._last


def _fenced(history: History) -> Iterator[Commit]:
    """Yield commits with the latest time at which they can have taken effect.

    A commit of a generation ends with the first sign of a later one: coordinators refuse it from then on. In a consumer
    group, the epoch of another member says nothing about it.
    """
    signs: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for assigned in history.assigned:
        if assigned.generation >= 0 and assigned.group not in history.consumer_groups:
            signs[assigned.group].append((assigned.generation, assigned.at_s))
    ends = {group: _first_after(found) for group, found in signs.items()}
    for commit in history.commits:
        if commit.acked or commit.generation is None:
            yield commit
            continue
        end_s = commit.begin_s + UNRESOLVED_S
        if commit.generation >= 0 and commit.group in ends:
            generations, times = ends[commit.group]
            index = bisect_left(generations, commit.generation + 1)
            if index < len(times):
                end_s = min(end_s, times[index])
        yield commit._replace(end_s=end_s)


def _in_transactions(history: History) -> Iterator[Commit]:
    """Offsets of transactions that are committed, or may be: some of their records are visible.

    So offsets of a transaction whose records are not visible are found by no fetch, and in time.
    """
    visible = {name for records in history.final.values() for _, name in records}
    for each in history.transactions:
        if each.committed or (each.committed is None and any(record.name in visible for record in each.records)):
            acked = bool(each.committed)
            for place, offset in each.offsets.items():
                yield Commit(each.worker, each.group, place, offset, None, each.begin_s, each.end_s, acked)


def _first_after(signs: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    """Return generations, ascending, and the time of the first sign of that generation or a later one."""
    generations: list[int] = []
    times: list[float] = []
    earliest_s = inf
    for generation, at_s in sorted(signs, reverse=True):
        earliest_s = min(earliest_s, at_s)
        generations.append(generation)
        times.append(earliest_s)
    return generations[::-1], times[::-1]


def everything_is_committed(history: History) -> Iterator[str]:
    """In the quiet time at the end, each group commits everything in its partitions."""
    for group, drained in sorted(history.drained.items()):
        if not drained:
            yield f"{group} had not committed everything when the quiet time was over"

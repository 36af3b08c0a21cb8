"""Gaps that clients saw: the longest time between two successes, out of the journals of the workers of tests/chaos."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

PRODUCE, FETCH, COMMIT, HEARTBEAT = "produce", "fetch", "commit", "heartbeat"
OPERATIONS = (PRODUCE, FETCH, COMMIT, HEARTBEAT)
HEARTBEAT_INTERVAL_S = 1.0


class Series(NamedTuple):
    """Successes that follow each other where nothing is wrong: of a partition, or of a member's heartbeats."""

    library: str
    operation: str
    of: str


class Gaps(NamedTuple):
    """Gaps of one library's producer and group, in a span of time.

    Of what a group fetches and commits, only the topic of that library's producer counts: that of another library may
    bring nothing, because that producer waits for its own timeouts.
    """

    longest_s: Mapping[str, float]
    """By operation, of the partition or member that waited longest."""
    rebalances: int

    @property
    def worst_s(self) -> float:
        """The longest gap, that of heartbeats without the interval at which members send them."""
        usual_s = {HEARTBEAT: HEARTBEAT_INTERVAL_S}
        return max((gap_s - usual_s.get(name, 0.0) for name, gap_s in self.longest_s.items()), default=0.0)


class Seen:
    """The journals of a folder, read on from where the last look at them ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = defaultdict(int)
        self._starts: dict[Path, Mapping[str, Any]] = {}
        self._begun: dict[tuple[Path, int], Mapping[str, Any]] = {}
        self._times: dict[Series, list[float]] = defaultdict(list)
        self._generations: dict[str, dict[int, float]] = defaultdict(dict)
        """By library: when a generation of its group was first seen."""

    def look(self) -> None:
        """Read what was written since the last time."""
        for path in sorted(self._folder.glob("*.jsonl")):
            if path.stem == "run" or path.stem.startswith("observer"):
                continue
            with path.open("rb") as journal:
                journal.seek(self._offsets[path])
                for line in journal:
                    if not line.endswith(b"\n"):
                        break
                    self._offsets[path] += len(line)
                    self._take(path, json.loads(line))
        for times in self._times.values():
            times.sort()  # members of a group write to journals of their own

    def all_since(self, at_s: float, expected: int) -> bool:
        """Whether each series, of which there are that many at least, has had a success since then."""
        self.look()
        return len(self._times) >= expected and all(times[-1] > at_s for times in self._times.values())

    def without_success_since(self, at_s: float) -> list[Series]:
        return sorted(series for series, times in self._times.items() if times[-1] <= at_s)

    def gaps(self, since_s: float, until_s: float) -> dict[str, Gaps]:
        """By library, of gaps that were open at some time of the span; one that has not ended is cut at its end."""
        self.look()
        longest: dict[str, dict[str, float]] = defaultdict(dict)
        produced = {(series.library, _topic(series)) for series in self._times if series.operation == PRODUCE}
        for series, times in self._times.items():
            if series.operation in (FETCH, COMMIT) and (series.library, _topic(series)) not in produced:
                continue
            known = longest[series.library]
            known[series.operation] = max(known.get(series.operation, 0.0), longest_gap_s(times, since_s, until_s))
        return {
            library: Gaps(found, sum(since_s < at_s <= until_s for at_s in self._generations[library].values()))
            for library, found in sorted(longest.items())
        }

    def _take(self, path: Path, event: Mapping[str, Any]) -> None:
        match event["e"]:
            case "start":
                self._starts[path] = event
                return
            case "begin" if event["call"] == "commit":
                self._begun[path, event["id"]] = event
                return
            case "assigned" if event["generation"] >= 0:
                generations = self._generations[self._starts[path]["library"]]
                known_s = generations.setdefault(event["generation"], event["t"])
                generations[event["generation"]] = min(known_s, event["t"])
                return
        for operation, of in self._successes(path, event):
            self._times[Series(self._starts[path]["library"], operation, of)].append(event["t"])

    def _successes(self, path: Path, event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Operation, and what it was of."""
        match event["e"]:
            case "acked":
                places = {(topic, number) for topic, number, *_ in event["records"]}
                yield from ((PRODUCE, f"{topic}-{number}") for topic, number in sorted(places))
            case "read":
                yield FETCH, f"{event['topic']}-{event['partition']}"
            case "heartbeat":
                yield HEARTBEAT, path.stem
            case "end":
                begun = self._begun.pop((path, event["id"]), None)
                if begun is not None and not event.get("error"):
                    yield from ((COMMIT, f"{topic}-{number}") for topic, number, _ in begun["offsets"])


def _topic(series: Series) -> str:
    """Return the topic of a partition's series."""
    return series.of.rpartition("-")[0]


def longest_gap_s(times: list[float], since_s: float, until_s: float) -> float:
    """Return the longest time between neighbours, of those that overlap the span. ``times`` ascend."""
    first = max(0, bisect_left(times, since_s) - 1)
    last = bisect_left(times, until_s)
    inside = [*times[first : last + 1]]
    if last >= len(times):
        inside.append(until_s)
    return max((later - earlier for earlier, later in pairwise(inside)), default=0.0)

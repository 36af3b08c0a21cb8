"""The made-up cluster of :mod:`benchmarks.tables`: its groups, members and topics, and the planted facts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from muster.placement.hashing import partition_for

HOUR_MS = 3_600_000
OFFSETS_PARTITIONS = 16
GATEWAYS = 4
LOGS = 4

_GROUPS = 200
_TOPICS = 50
_PARTITIONS = 16
_TOPICS_PER_GROUP = 2
_MEMBERS = 4
_SKEWED_SHARE = 0.3
_MASK = (1 << 32) - 1
_SCATTERED_BITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """Facts for the jobs to find, and the end of the time in which they look. Times in ms since the Unix epoch."""

    end_ms: int
    """The end of the tables; "now" for what is current."""
    storm_group: str
    """The group that rebalances again and again."""
    storm_from_ms: int
    storm_rebalances: int
    stalled_group: str
    stalled_topic: str
    stalled_partition: int
    """Partition whose member still heartbeats and no longer commits, while the log grows."""
    stalled_from_ms: int
    hole_gateway: int
    """The gateway that lost most of its attribution for a while."""
    hole_from_ms: int
    hole_to_ms: int
    hole_share: float
    killed_actor: str
    killed_at_ms: int
    killed_for_ms: int


@dataclass(slots=True, kw_only=True)
class World:
    """A *track* is a group on a partition of a topic; ``track_*`` are arrays over the tracks."""

    seed: int
    start_ms: int
    end_ms: int
    window_ms: int
    gateways: int
    groups: list[str]
    offsets_partition: list[int]
    """By group."""
    members: list[str]
    client_ids: list[str]
    hosts: list[str]
    topics: list[str]
    track_group: Any
    track_member: Any
    """Index into ``members``."""
    track_topic: Any
    track_partition: Any
    track_gateway: Any
    track_stalled: Any
    planted: Planted

    @classmethod
    def of(cls, samples: int, *, hours: int, seed: int, end_ms: int) -> World:
        """Return a world with as many tracks and windows as give that many samples."""
        chance = np.random.default_rng(seed)
        groups = _group_names(int(_GROUPS * min(1.0, max(0.05, samples / 1e6))))
        numbers = range(len(groups))
        chosen = [chance.choice(_TOPICS, _TOPICS_PER_GROUP, replace=False) for _ in numbers]
        tracks = [(g, int(t), p) for g in numbers for t in chosen[g] for p in range(_PARTITIONS)]
        start_ms = end_ms - hours * HOUR_MS
        window_ms = max(1000, hours * HOUR_MS * len(tracks) // samples)
        storm, stalled = groups[3], 5 * _TOPICS_PER_GROUP * _PARTITIONS + 7
        group, topic, partition = tracks[stalled]
        middle = start_ms + hours * HOUR_MS // 2
        return cls(
            seed=seed,
            start_ms=start_ms,
            end_ms=end_ms,
            window_ms=window_ms,
            gateways=GATEWAYS,
            groups=groups,
            offsets_partition=[_offsets_partition(name) for name in groups],
            members=[f"{name}-{number}-0b1c" for name in groups for number in range(_MEMBERS)],
            client_ids=[f"{name}-client" for name in groups],
            hosts=[f"10.0.{number // 256}.{number % 256}" for number in range(100)],
            topics=[f"topic-{number:02}" for number in range(_TOPICS)],
            track_group=np.array([g for g, _, _ in tracks], np.int32),
            track_member=np.array([g * _MEMBERS + p % _MEMBERS for g, _, p in tracks], np.int32),
            track_topic=np.array([t for _, t, _ in tracks], np.int32),
            track_partition=np.array([p for _, _, p in tracks], np.int32),
            track_gateway=np.array([(t + p) % GATEWAYS for _, t, p in tracks], np.int32),
            track_stalled=np.arange(len(tracks)) == stalled,
            planted=Planted(
                end_ms=end_ms,
                storm_group=storm,
                storm_from_ms=middle,
                storm_rebalances=120,
                stalled_group=groups[group],
                stalled_topic=f"topic-{topic:02}",
                stalled_partition=partition,
                stalled_from_ms=middle,
                hole_gateway=1,
                hole_from_ms=middle + 600_000,
                hole_to_ms=middle + 1_500_000,
                hole_share=0.6,
                killed_actor="log-2",
                killed_at_ms=middle + 900_000,
                killed_for_ms=4_200,
            ),
        )

    def windows(self) -> Any:
        """Start of each window in ms."""
        return np.arange(self.start_ms, self.end_ms, self.window_ms, dtype=np.int64)

    def offsets_after(self, window: Any, topic: Any, partition: Any) -> Any:
        """Return the offset after the windows that begin at ``window`` (ms), in these partitions; 0 before the first.

        On average 1 to 3 messages a second, by partition; in each window, up to half of them come early.
        """
        number = (window - self.start_ms) // self.window_ms + 1
        mean = max(1, self.window_ms // 1000) * (1 + (topic + partition) % 3)
        sooner = _scattered(number, topic * _PARTITIONS + partition) * (mean // 2 + 1) >> _SCATTERED_BITS
        return number * mean + np.where(number > 0, sooner, 0)


def _scattered(number: Any, place: Any) -> Any:
    """Return 0 to 2**_SCATTERED_BITS - 1, pseudo-random for each pair: an integer hash of multiplications and
    shifts."""
    mixed = (np.asarray(number, np.int64) * 73_856_093 + np.asarray(place, np.int64) * 19_349_663) & _MASK
    for _ in range(2):
        mixed = ((mixed >> 16) ^ mixed) * 0x45D9F3B & _MASK
    return (mixed >> 16) & ((1 << _SCATTERED_BITS) - 1)


def _group_names(count: int) -> list[str]:
    """Return names of which a third hash to the same offsets partition."""
    skewed = _offsets_partition("skew-0")
    alike = (name for name in (f"skew-{n}" for n in itertools.count()) if _offsets_partition(name) == skewed)
    others = (f"group-{n:03}" for n in itertools.count())
    return [next(alike) if number % 10 < _SKEWED_SHARE * 10 else next(others) for number in range(count)]


def _offsets_partition(group: str) -> int:
    return partition_for(group, OFFSETS_PARTITIONS)

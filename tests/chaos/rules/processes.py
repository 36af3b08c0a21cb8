"""Processes of the cluster: all are there at the end, and none grows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from tests.chaos.history import History, Sample

YOUNG_S = 5.0
"""A process that is younger is not looked at: it is still loading, or not yet what it will be."""
_FIGURES: dict[str, tuple[Callable[[Sample], int], float, int]] = {
    "memory (bytes)": (lambda sample: sample.rss_bytes, 1.5, 150 << 20),
    "file descriptors": (lambda sample: sample.descriptors, 2.0, 100),
    "sockets": (lambda sample: sample.sockets, 2.0, 60),
}
"""What: figure, how many times the warm-up's, and how much on top of that."""


def all_alive(history: History) -> Iterator[str]:
    """At the end everything runs and serves."""
    yield from history.not_alive


def nothing_grows(history: History) -> Iterator[str]:
    """In the quiet time at the end no process has much more of anything than its kind had before the faults."""
    faults_s, quiet_s = history.phases.get("faults"), history.phases.get("quiet")
    if faults_s is None or quiet_s is None:
        return
    warm: dict[str, list[Sample]] = defaultdict(list)
    last: dict[tuple[str, int], Sample] = {}
    for sample in history.samples:
        if sample.at_s < faults_s:
            warm[_kind(sample.role)].append(sample)
        elif sample.at_s >= quiet_s:
            last[sample.role, sample.pid] = sample
    for (role, pid), sample in sorted(last.items()):
        for what, (figure, times, more) in _FIGURES.items():
            base = max((figure(before) for before in warm[_kind(role)]), default=None)
            if base is not None and figure(sample) > base * times + more:
                yield f"{role} (pid {pid}) has {figure(sample):,} {what}, its kind had {base:,} before the faults"


def _kind(role: str) -> str:
    """``offsets`` of ``offsets-3``."""
    return role.rstrip("0123456789").rstrip("-")

"""Processes of the cluster: all are running at the end, and none grows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from tests.chaos.history import History, Sample

YOUNG_S = 5.0
"""Younger processes are not checked: they are still loading, or not fully started."""
_FIGURES: dict[str, tuple[Callable[[Sample], int], float, int]] = {
    "memory (bytes)": (lambda sample: sample.rss_bytes, 1.5, 150 << 20),
    "file descriptors": (lambda sample: sample.descriptors, 2.0, 100),
    "sockets": (lambda sample: sample.sockets, 2.0, 60),
}
"""Per figure: a factor for the warm-up's value, and an absolute addition."""


def all_alive(history: History) -> Iterator[str]:
    """At the end everything runs and serves."""
    yield from history.not_alive


def nothing_grows(history: History) -> Iterator[str]:
    """In the quiet time at the end, no process uses much more of anything than its kind did before the faults."""
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

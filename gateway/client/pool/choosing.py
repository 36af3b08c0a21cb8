"""Which workers to stop, which slots to fill, and when to fill them again. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from muster.gateway.client.kafka.leaders import TopicPartition

_MIN_PAUSE_S, _MAX_PAUSE_S = 1.0, 30.0
_STABLE_S = 60.0
"""A worker that lived so long did not die of its start."""


def to_stop(
    count: int, partitions: Mapping[int, Collection[TopicPartition]], lags: Mapping[TopicPartition, int]
) -> list[int]:
    """Return the slots to stop: first those whose partitions lag least, of these the ones with the fewest partitions.

    ``partitions``: of each slot that may be stopped, none of a worker that is no member yet. ``lags``: in records.
    """

    def work(slot: int) -> tuple[int, int, int]:
        owned = partitions[slot]
        return sum(lags.get(each, 0) for each in owned), len(owned), -slot

    return sorted(partitions, key=work)[: max(count, 0)]


def free_slots(count: int, used: Collection[int]) -> list[int]:
    """Return the lowest slots that are not used."""
    found: list[int] = []
    slot = 0
    while len(found) < count:
        if slot not in used:
            found.append(slot)
        slot += 1
    return found


class Restarts:
    """Replacements of workers that died: at once, but slower each time if they die of their start."""

    def __init__(self) -> None:
        self._pause_s = 0.0
        self._from_s = 0.0

    def note_deaths(self, now_s: float, lived_s: Iterable[float]) -> None:
        """Note how long workers lived that died by themselves."""
        for each in lived_s:
            if each >= _STABLE_S:
                self._pause_s = 0.0
            else:
                self._from_s = now_s + self._pause_s
                self._pause_s = min(max(2 * self._pause_s, _MIN_PAUSE_S), _MAX_PAUSE_S)

    def may_start(self, now_s: float) -> bool:
        """Return whether workers may be started now."""
        return now_s >= self._from_s

"""Times when a coordinator's groups had members, for the audit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import get_args

from muster.actors.group.events import (
    ConsumerGroupRestored,
    GenerationCompleted,
    GroupConverted,
    GroupDeleted,
    GroupEpochRaised,
    GroupRestored,
    MemberAdded,
    MemberExpired,
    MemberLeft,
)

KEPT_MS = 3_600_000
"""How long it is known that a group had members."""
MAX_GROUPS = 50_000
_MAX_PERIODS = 16

Change = (
    ConsumerGroupRestored
    | GenerationCompleted
    | GroupConverted
    | GroupDeleted
    | GroupEpochRaised
    | GroupRestored
    | MemberAdded
    | MemberExpired
    | MemberLeft
)
Period = tuple[int, int]
"""From and until, ms since the epoch by the coordinator's clock, both inclusive."""


class MemberPeriods:
    """Observes the events of one coordinator. ``has_members`` says of a group whether it has members now."""

    kinds = get_args(Change)

    def __init__(self, has_members: Callable[[str], bool], began_ms: int) -> None:
        """Before ``began_ms`` any group may have had members."""
        self._has_members = has_members
        self._began_ms = began_ms
        self._since: dict[str, int] = {}
        """Groups with members."""
        self._ended: dict[str, list[Period]] = {}
        """The group whose members left last is last."""

    def observe(self, event: Change, now_ms: int) -> None:
        """Take an event, one of ``kinds``."""
        group = event.group
        if self._has_members(group):
            self._since.setdefault(group, now_ms)
        elif (since_ms := self._since.pop(group, None)) is not None:
            self._end(group, since_ms, now_ms)

    def of(self, groups: Collection[str], now_ms: int) -> dict[str, tuple[Period, ...]]:
        """When each of the groups had members, as far back as is known; before that, always."""
        found = {}
        for group in groups:
            periods = [(0, max(self._began_ms, now_ms - KEPT_MS)), *self._ended.get(group, ())]
            if (since_ms := self._since.get(group)) is not None:
                periods.append((since_ms, now_ms))
            found[group] = tuple(periods)
        return found

    def _end(self, group: str, since_ms: int, now_ms: int) -> None:
        periods = self._ended.pop(group, [])
        periods.append((since_ms, now_ms))
        if len(periods) > _MAX_PERIODS:
            periods[:2] = [(periods[0][0], periods[1][1])]
        self._ended[group] = periods
        while len(self._ended) > MAX_GROUPS or self._is_old(next(iter(self._ended.values())), now_ms):
            del self._ended[next(iter(self._ended))]

    def _is_old(self, periods: list[Period], now_ms: int) -> bool:
        return periods[-1][1] < now_ms - KEPT_MS


def had_members(periods: Collection[Period], at_ms: int) -> bool:
    """Whether the group had members at that time."""
    return any(since_ms <= at_ms <= until_ms for since_ms, until_ms in periods)


Members = Mapping[str, Collection[Period]]
"""By group, when it had members; groups of which that is unknown are missing."""

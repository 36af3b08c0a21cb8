"""Counts of what the reconciler did and found, for ``status`` and /metrics."""

from __future__ import annotations

from collections import Counter
from typing import Any

from muster.placement.mapping.divergence import node_kind
from muster.placement.mapping.repair import Action, Create, Plan, SetIf
from muster.placement.mapping.writes import Outcome


def action_name(action: Action) -> str:
    """``create``, ``set`` or ``remove``."""
    if isinstance(action, Create):
        return "create"
    return "set" if isinstance(action, SetIf) else "remove"


class RepairCounts:
    """Counts since the start, except for what the last round found. Callers pass in monotonic seconds."""

    def __init__(self) -> None:
        self.deferred = 0
        """Writes that the last round left for the next one, because of the limit."""
        self._rounds: Counter[str] = Counter(done=0, skipped=0, failed=0)
        self._repairs: Counter[tuple[str, str]] = Counter()
        self._missed: Counter[Outcome] = Counter()
        self._since_s: dict[str, float] = {}
        self._differences: Counter[tuple[str, str]] = Counter()
        self._left_alone: Counter[str] = Counter()
        self._suspects = 0
        self._trusted: tuple[int, ...] = ()
        self._last_round_s = 0.0

    def skipped(self) -> None:
        """Count a round that could not compare anything."""
        self._rounds["skipped"] += 1

    def failed(self) -> None:
        """Count a round that failed."""
        self._rounds["failed"] += 1

    def compared(self, todo: Plan, trusted: tuple[int, ...], now_s: float) -> None:
        """Count a round that has compared; each divergence counts from when it was first seen."""
        self._rounds["done"] += 1
        self._since_s = {one.path: self._since_s.get(one.path, now_s) for one in todo.divergences}
        self._differences = Counter((one.difference.value, node_kind(one.path)) for one in todo.divergences)
        reasons = ("unreadable" if one.offsets_partition is None else "not_active" for one in todo.left_alone)
        self._left_alone = Counter(reasons)
        self._suspects = len(todo.suspects)
        self._trusted = trusted

    @property
    def round(self) -> int:
        """Number of the last round that compared."""
        return self._rounds["done"]

    def since_s(self, path: str) -> float | None:
        """When the node was first seen to differ, in monotonic seconds; None if it does not."""
        return self._since_s.get(path)

    def rounds_took(self, duration_s: float) -> None:
        """How long the last round took."""
        self._last_round_s = duration_s

    def tried(self, action: str, path: str, outcome: Outcome) -> None:
        """Count the outcome of a write; a node that was written no longer differs."""
        if outcome is Outcome.DONE:
            self._repairs[action, node_kind(path)] += 1
            self._since_s.pop(path, None)
        else:
            self._missed[outcome] += 1

    def status(self, now_s: float) -> dict[str, Any]:
        """Return the counts for JSON."""
        oldest_s = min(self._since_s.values(), default=None)
        return {
            "rounds": self._rounds["done"],
            "skipped_rounds": self._rounds["skipped"],
            "failed_rounds": self._rounds["failed"],
            "repairs": {f"{action}_{kind}": count for (action, kind), count in sorted(self._repairs.items())},
            "late_repairs": self._missed[Outcome.NEEDLESS] + self._missed[Outcome.LOST],
            "refused_repairs": self._missed[Outcome.TOO_LARGE],
            "deferred_repairs": self.deferred,
            "differences": {f"{what}_{kind}": count for (what, kind), count in sorted(self._differences.items())},
            "suspects": self._suspects,
            "left_alone": dict(sorted(self._left_alone.items())),
            "divergent_for_ms": None if oldest_s is None else round((now_s - oldest_s) * 1000),
            "trusted_partitions": list(self._trusted),
            "last_round_ms": round(self._last_round_s * 1000, 1),
        }

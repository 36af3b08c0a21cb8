"""Report of the time of each step and of what clients saw, as text; all of it once more at the end."""

from __future__ import annotations

from collections.abc import Mapping

from tests.hosts.seen import OPERATIONS, Gaps


class Report:
    """Lines are printed when they are made."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def line(self, text: str) -> None:
        self._lines.append(text)
        print(text, flush=True)

    def took(self, what: str, took_s: float, goal_s: float | None = None) -> None:
        self.line(f"== {what}: {took_s:.1f} s{_goal(took_s, goal_s)}")

    def step(self, what: str, took_s: float, gaps: Mapping[str, Gaps], goal_s: float | None = None) -> None:
        """Print the longest gap in seconds of each operation, by library, beside the goal."""
        self.line(f"\n== {what}; step {took_s:.1f} s")
        self.line(f"  {'longest gap (s)':16}" + "".join(f"{name:>11}" for name in OPERATIONS) + " rebalances")
        for library, seen in gaps.items():
            found = (seen.longest_s.get(name) for name in OPERATIONS)
            cells = "".join(f"{'-' if value is None else f'{value:.2f}':>11}" for value in found)
            self.line(f"  {library:16}{cells}{seen.rebalances:>11}")
        worst_s = max((seen.worst_s for seen in gaps.values()), default=0.0)
        self.line(f"  longest: {worst_s:.1f} s{_goal(worst_s, goal_s)}")

    def all(self) -> str:
        return "\n".join(self._lines)


def _goal(found_s: float, goal_s: float | None) -> str:
    return "" if goal_s is None else f" (goal {goal_s:g} s: {'met' if found_s <= goal_s else 'missed'})"

"""The exception for a coordinator that violates an invariant."""

from __future__ import annotations


class Broken(AssertionError):
    """An invariant does not hold; ``invariant`` is its name."""

    def __init__(self, detail: str, invariant: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.invariant = invariant

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail}"

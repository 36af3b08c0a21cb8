"""Bounds what the responses of all connections take while clients do not take them."""

from __future__ import annotations

from typing import Protocol


class Holder(Protocol):
    """Who holds responses."""

    def waiting_bytes(self) -> int:
        """Return the size of its responses now."""

    def give_back(self) -> None:
        """Free the memory: read the rest from files later, or give the client up."""


class ResponseMemory:
    """Memory of one gateway's responses.

    Beyond the limit those are given back first that have waited longest without progress. A client that takes nothing
    so holds up nobody: none waits for the memory of another.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: dict[Holder, int] = {}
        """Whose client has taken something last comes last."""
        self.held_bytes = 0

    def hold(self, holder: Holder, size_bytes: int) -> None:
        """Count the memory of a holder's responses from now on, since its client has taken what it could."""
        self.release(holder)
        self._held[holder] = size_bytes
        self.held_bytes += size_bytes
        if self.held_bytes > self._limit_bytes:
            self._look_again()
        while self.held_bytes > self._limit_bytes:
            oldest = next(iter(self._held))
            self.release(oldest)
            oldest.give_back()

    def release(self, holder: Holder) -> None:
        """Release all memory of the holder."""
        self.held_bytes -= self._held.pop(holder, 0)

    def _look_again(self) -> None:
        """Whose client has taken something meanwhile is no longer the oldest."""
        for holder, before in list(self._held.items()):
            now = holder.waiting_bytes()
            if now < before:
                self.release(holder)
                self._held[holder] = now
                self.held_bytes += now

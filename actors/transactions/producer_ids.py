"""Producer ids that the shell has allocated ahead."""

from __future__ import annotations

from collections import deque

_LOW = 100
"""Of a block of 1000, as Kafka's brokers have them: the next one is allocated when 90 % are used."""


class ProducerIds:
    def __init__(self) -> None:
        self._blocks: deque[range] = deque()

    @property
    def is_low(self) -> bool:
        """Whether the next block should be allocated."""
        return sum(map(len, self._blocks)) < _LOW

    def give(self, block: range) -> None:
        """Ids that no other process has."""
        if block:
            self._blocks.append(block)

    def take(self) -> int | None:
        """An id, each only once; None if there is none."""
        if not self._blocks:
            return None
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        return block[0]

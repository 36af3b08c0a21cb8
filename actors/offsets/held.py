"""What coordinators hold, told to the reconciler again only when it changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from muster.placement.mapping.registration import Registration

Registrations = tuple[Registration, ...]
Version = tuple[int, tuple[int, int]]
"""How many registrations, and the highest (epoch, sequence) of them.

Of one partition, equal versions mean equal registrations: every update has a higher (epoch, sequence) than all
before it, so what changed or came would have raised the second, and what only went has lowered the first.
"""


def version_of(registrations: Collection[Registration]) -> Version:
    """Of what one partition holds."""
    return len(registrations), max(((one.epoch, one.sequence) for one in registrations), default=(-1, -1))


def news(registrations: Registrations, known: Version | None) -> Registrations | None:
    """What is held; None if the one who asks knows it."""
    return None if known == version_of(registrations) else registrations


class Known:
    """What partitions said last: the very same tuple for as long as there is no news."""

    def __init__(self) -> None:
        self._held: dict[int, Registrations] = {}

    def versions(self) -> Mapping[int, Version]:
        """To be sent with the question."""
        return {partition: version_of(held) for partition, held in self._held.items()}

    def take(self, partition: int, answer: Registrations | None) -> Registrations:
        """What the partition holds, by its answer to a question with its version."""
        if answer is not None:
            self._held[partition] = answer
        return self._held[partition]

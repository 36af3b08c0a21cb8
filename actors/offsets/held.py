"""The registrations that coordinators hold, sent to the reconciler again only after a change."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from muster.placement.mapping.registration import Registration

Registrations = tuple[Registration, ...]
Version = tuple[int, tuple[int, int]]
"""The number of registrations, and the highest (epoch, sequence) among them.

For one partition, equal versions mean equal registrations. Every update has a higher (epoch, sequence) than all
earlier ones, so a change or an addition raises the second, and removals alone lower the first.
"""


def version_of(registrations: Collection[Registration]) -> Version:
    """Return the version of one partition's registrations."""
    return len(registrations), max(((one.epoch, one.sequence) for one in registrations), default=(-1, -1))


def news(registrations: Registrations, known: Version | None) -> Registrations | None:
    """Return the registrations; None if the caller knows them already."""
    return None if known == version_of(registrations) else registrations


class Known:
    """The last known registrations of each partition: the identical tuple as long as nothing changes."""

    def __init__(self) -> None:
        self._held: dict[int, Registrations] = {}

    def versions(self) -> Mapping[int, Version]:
        """Return the versions to send with the query."""
        return {partition: version_of(held) for partition, held in self._held.items()}

    def take(self, partition: int, response: Registrations | None) -> Registrations:
        """Return the partition's registrations, by its response to a query with its version."""
        if response is not None:
            self._held[partition] = response
        return self._held[partition]

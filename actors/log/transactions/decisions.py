"""Which ends of transactions were executed, so that a late attempt of an earlier one ends nothing.

Under the classic protocol a producer's next transaction has the same producer id and epoch. Each marker of a
coordinator therefore has a number that increases with each decision about the producer: the offset of the record that
decides. The memory is lost with the process, and so is every attempt that was queued in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import NamedTuple

from muster.actors.log.errors import LogError
from muster.actors.wire.internal.markers import NO_DECISION, Marker

Done = asyncio.Future[LogError | None]
"""Outcome of a write: see ``muster.actors.log.committer``."""
_Key = tuple[int, int]
"""Partition of ``__transaction_state``, producer id."""


class Executed(NamedTuple):
    decision: int
    done: Done
    """The outcome of the newest marker that was appended."""


class Decisions:
    """The newest executed decision of each coordinator and producer, in one partition."""

    def __init__(self) -> None:
        self._executed: dict[_Key, Executed] = {}

    def executed(self, marker: Marker) -> Done | None:
        """Return the outcome of this decision, or of a newer one, if any; an administrator's is always new."""
        found = self._executed.get(_key(marker))
        if marker.decision == NO_DECISION or found is None or marker.decision > found.decision:
            return None
        return found.done

    def add(self, marker: Marker, done: Done) -> None:
        """Record a marker that is being appended. If that fails, it was not executed."""
        if marker.decision == NO_DECISION:
            return
        key = _key(marker)
        before, added = self._executed.get(key), Executed(marker.decision, done)
        self._executed[key] = added

        def settle(outcome: Done) -> None:
            if outcome.result() is not None and self._executed.get(key) is added:
                if before is not None and not _has_failed(before.done):
                    self._executed[key] = before
                else:
                    del self._executed[key]

        done.add_done_callback(settle)

    def keep(self, producer_ids: Container[int]) -> None:
        """Forget the decisions about all other producers."""
        for key in [key for key in self._executed if key[1] not in producer_ids]:
            del self._executed[key]


def _has_failed(done: Done) -> bool:
    return done.done() and done.result() is not None


def _key(marker: Marker) -> _Key:
    return marker.coordinator_partition, marker.producer_id

"""Undo of a reset of a group's offsets: the committed offsets are saved before it.

They are saved in Kafka's own way, as committed offsets of another group, ``__muster_undo.<group>``:

* they are as durable as what they restore, in ``__consumer_offsets``, and visible from any machine with Kafka's tools;
  a file would be on one machine, and ZooKeeper may not be reachable from where this command runs;
* consumers that commit between the reset and its undo do not change them;
* they are removed as committed offsets are: with the topic, or after ``offsets.retention.minutes``.

The metadata of each offset contain the time of the reset, so that of two resets the last counts, and whether anything
was committed at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import MusterError
from muster.gateway.client.groups import offsets
from muster.gateway.client.groups.coordinators import CoordinatorOf
from muster.gateway.client.groups.offsets import Committed, Partition, name_of
from muster.gateway.client.groups.reset_plan import Change
from muster.placement.view import UNDO_PREFIX

_NOTHING = 0


@dataclass(frozen=True, slots=True)
class Undo:
    reset_at_ms: int
    before: dict[Partition, Committed | None]
    """None if nothing was committed."""


def keep(coordinator_of: CoordinatorOf, group: str, changes: Iterable[Change], now_ms: int) -> bool:
    """Save the removed offsets, before anything is changed. Raises MusterError if they cannot be saved.

    Returns False if metadata of some offsets had to be left out because they already have the maximum length of the
    cluster.
    """
    kept = {change.partition: change.before for change in changes}
    with coordinator_of(UNDO_PREFIX + group) as coordinator:
        refused = offsets.commit(coordinator, {key: _packed(before, now_ms, True) for key, before in kept.items()})
        too_long = [key for key, error in refused.items() if error is ErrorCode.offset_metadata_too_large]
        if too_long and len(too_long) == len(refused):
            refused = offsets.commit(coordinator, {key: _packed(kept[key], now_ms, False) for key in too_long})
    if refused:
        partition, error = next(iter(refused.items()))
        raise MusterError(
            f"the old offsets could not be saved for --undo ({name_of(partition)}: {error.name.upper()}); "
            "nothing was reset"
        )
    return not too_long


def last(coordinator_of: CoordinatorOf, group: str) -> Undo | None:
    """Return the offsets removed by the last reset; None if there was none, or if it was undone or is too long ago.

    Raises MusterError.
    """
    with coordinator_of(UNDO_PREFIX + group) as coordinator:
        kept = [(key, *_unpacked(found)) for key, found in offsets.fetch(coordinator).items()]
    if not kept:
        return None
    reset_at_ms = max(at_ms for _, at_ms, _ in kept)
    return Undo(reset_at_ms, {key: before for key, at_ms, before in kept if at_ms == reset_at_ms})


def forget(coordinator_of: CoordinatorOf, group: str) -> None:
    """Remove the saved offsets: there is nothing left to undo. Raises MusterError."""
    with coordinator_of(UNDO_PREFIX + group) as coordinator:
        error = offsets.delete_group(coordinator)
    if error not in (ErrorCode.none, ErrorCode.group_id_not_found):
        raise MusterError(f"group {UNDO_PREFIX}{group} cannot be deleted: {error.name.upper()}")


def _packed(before: Committed | None, now_ms: int, with_metadata: bool) -> Committed:
    said: dict[str, Any] = {"reset_at_ms": now_ms, "committed": before is not None}
    if before is None:
        return Committed(_NOTHING, -1, json.dumps(said))
    if with_metadata and before.metadata:
        said["metadata"] = before.metadata
    return Committed(before.offset, before.leader_epoch, json.dumps(said, ensure_ascii=False))


def _unpacked(kept: Committed) -> tuple[int, Committed | None]:
    try:
        said = json.loads(kept.metadata)
        at_ms = int(said["reset_at_ms"])
        before = Committed(kept.offset, kept.leader_epoch, str(said.get("metadata", "")))
        return at_ms, before if said["committed"] else None
    except (ValueError, KeyError, TypeError) as error:
        raise MusterError(
            f"the offsets saved for --undo are not readable ({kept.metadata[:100]!r}); another client committed for it"
        ) from error

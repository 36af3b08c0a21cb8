"""Rows of the table ``registrations``. Pure. Their meaning is in :mod:`muster.actors.tables.schemas.groups`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from muster.placement.mapping.registration import Change, Kind, Registration

Row = dict[str, Any]


def row_of(change: Change, ts_ms: int) -> Row:
    """Return the row of one client's registration or withdrawal."""
    row = {
        "ts": ts_ms,
        "offsets_partition": change.offsets_partition,
        "epoch": change.epoch,
        "sequence": change.sequence,
        "event": "withdrawn",
        "group": change.group,
        "member_id": change.member_id,
    }
    if isinstance(change, Registration):
        is_member = change.kind is Kind.MEMBER
        row |= {
            "event": "registered",
            "kind": change.kind,
            "client_id": change.client_id,
            "host": change.host,
            "principal": change.principal,
            "generation": change.generation if is_member else None,
            "partitions": _partitions(change),
        }
    return row


def snapshot_rows(
    registrations: Sequence[Registration], *, offsets_partition: int, offsets_partitions: int, epoch: int, ts_ms: int
) -> Iterator[Row]:
    """Yield all registrations that hold at one time, followed by the row that marks the snapshot as complete.

    ``offsets_partitions``: how many partitions ``__consumer_offsets`` has.
    """
    for registration in registrations:
        yield row_of(registration, ts_ms)
    yield {
        "ts": ts_ms,
        "offsets_partition": offsets_partition,
        "epoch": epoch,
        "sequence": max((registration.sequence for registration in registrations), default=0),
        "event": "snapshot",
        "group": "",
        "member_id": "",
        "offsets_partitions": offsets_partitions,
    }


def _partitions(registration: Registration) -> list[Row] | None:
    if registration.partitions is None:
        return None
    return [{"topic": topic, "partition": partition} for topic, partition in sorted(registration.partitions)]

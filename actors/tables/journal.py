"""The lines of a spool file. One line is one JSON array.

``d`` is the first sample of a run, whose counters are in the slot of that number
(:mod:`muster.actors.tables.slots`); ``s`` a single sample; ``p`` a sample whose attribution is pending, with a handle;
``r`` the resolution of a handle: the whole sample again, as it counts now. So the rows of a spool depend only on that
spool and its slots.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from muster.actors.tables import slots
from muster.actors.tables.folder import read_lines
from muster.actors.tables.rollup import Rollup, Row, Sample

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_TEXTS = 4096
"""Number of combinations that are cached: a few for each client and topic."""


def sample_line(sample: Sample) -> bytes:
    return f'["s",{_values(sample)}]\n'.encode()


def run_line(slot: int, sample: Sample) -> bytes:
    return f'["d",{slot},{_values(sample)}]\n'.encode()


def pending_line(handle: int, sample: Sample) -> bytes:
    return f'["p",{handle},{_values(sample)}]\n'.encode()


def resolution_line(handle: int, sample: Sample) -> bytes:
    return f'["r",{handle},{_values(sample)}]\n'.encode()


def _values(sample: Sample) -> str:
    who = _texts(sample.group, sample.member_id, sample.client_id, sample.host, sample.topic)
    how = _texts(sample.evidence, sample.reason)
    amounts = f"{sample.messages},{sample.bytes},{sample.first_offset},{sample.last_offset}"
    return f"{sample.ts_ms},{who},{sample.partition},{how},{amounts},{sample.control_records},{sample.aborted_records}"


@lru_cache(maxsize=_TEXTS)
def _texts(*values: str | None) -> str:
    """Return the texts as elements of a JSON array; cached, since the same few texts recur."""
    return _encode(values)[1:-1]


@dataclass(slots=True)
class Spool:
    """The content of one spool file."""

    rollup: Rollup = field(default_factory=Rollup)
    pending: dict[int, Sample] = field(default_factory=dict)
    resolved: set[int] = field(default_factory=set)
    lost: int = 0
    """Number of lines that are known to be missing."""


def read(path: Path) -> Spool:
    """Read a spool file and its slots. Lines that are not whole are left out and counted."""
    lines, lost = read_lines(path)
    spool, held = Spool(lost=lost), slots.read(path)
    for values in lines:
        try:
            _apply(spool, values, held)
        except (ValueError, TypeError, KeyError):
            spool.lost += 1
    return spool


def _apply(spool: Spool, values: Any, held: bytes) -> None:
    match values:
        case ["d", int(slot), *rest]:
            spool.rollup.take(_row(_sample(rest), slots.counters(held, slot)))
        case ["s", *rest]:
            spool.rollup.add(_sample(rest))
        case ["p", int(handle), *rest]:
            spool.pending[handle] = _sample(rest)
        case ["r", int(handle), *rest]:
            spool.rollup.add(_sample(rest))
            spool.resolved.add(handle)
        case _:
            raise ValueError(values)


def _row(head: Sample, found: slots.Counters | None) -> Row:
    """Return the row as it was when the process died; without counters, the run was never extended."""
    skipped = head.control_records, head.aborted_records
    known = found or slots.Counters(1, head.ts_ms, head.messages, head.bytes, head.last_offset, *skipped)
    return Row(head=head, **known._asdict())


def _sample(values: list[Any]) -> Sample:
    ts_ms, group, member_id, client_id, host, topic, partition, evidence, reason, *amounts = values
    messages, size_bytes, first_offset, last_offset, control_records, aborted_records = amounts
    return Sample(
        ts_ms=ts_ms,
        group=group,
        member_id=member_id,
        client_id=client_id,
        host=host,
        topic=topic,
        partition=partition,
        evidence=evidence,
        reason=reason,
        messages=messages,
        bytes=size_bytes,
        first_offset=first_offset,
        last_offset=last_offset,
        control_records=control_records,
        aborted_records=aborted_records,
    )


def unresolved(spools: Iterable[Spool]) -> dict[int, Sample]:
    """Pending samples that no spool resolves, by handle."""
    pending: dict[int, Sample] = {}
    resolved: set[int] = set()
    for spool in spools:
        pending |= spool.pending
        resolved |= spool.resolved
    return {handle: sample for handle, sample in pending.items() if handle not in resolved}

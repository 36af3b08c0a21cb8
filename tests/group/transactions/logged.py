"""The log of a coordinator under test: records, records of transactions, and markers, each with one offset."""

from __future__ import annotations

from typing import NamedTuple

from muster.actors.group.coordinator import Coordinator
from muster.actors.group.transactions.loading import LatestRecords
from muster.actors.group.types import Outcome, Producer, Record, TxnMarker


class InTransaction(NamedTuple):
    """A record of a transactional batch."""

    producer: Producer
    record: Record


Logged = Record | InTransaction | TxnMarker
"""Entries that have one offset in the log."""


def logged(outcome: Outcome) -> list[Logged]:
    """Return the entries that the write of a step puts into the log."""
    if outcome.marker is not None:
        return [outcome.marker]
    if outcome.producer is not None:
        return [InTransaction(outcome.producer, record) for record in outcome.records]
    return [*outcome.records]


def replay(core: Coordinator, log: list[Logged], now_ms: int = 0) -> None:
    """In the order of the log, with its markers."""
    for offset, entry in enumerate(log):
        match entry:
            case TxnMarker():
                core.hard_state.end_transaction(entry.producer.producer_id, commit=entry.commit)
            case InTransaction():
                core.replay(offset, entry.record, now_ms, entry.producer.producer_id)
            case Record():
                core.replay(offset, entry, now_ms)


def replay_latest(core: Coordinator, log: list[Logged]) -> None:
    """Replay what a compacted log would hold."""
    latest: LatestRecords[_Entry] = LatestRecords()
    for offset, entry in enumerate(log):
        match entry:
            case TxnMarker():
                latest.end(entry.producer.producer_id, commit=entry.commit)
            case InTransaction():
                latest.add_pending(entry.producer.producer_id, [_Entry(offset, *entry.record)])
            case Record():
                latest.add([_Entry(offset, *entry)])
    for each, producer_id in latest.entries():
        core.replay(each.offset, Record(each.key, each.value), 0, producer_id)


class _Entry(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None

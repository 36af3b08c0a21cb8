"""Aborts transactions that have timed out, and removes transactional ids that have expired."""

from __future__ import annotations

from itertools import islice

from muster.actors.group.errors import ApiError
from muster.actors.transactions.ends import fence, has_timed_out
from muster.actors.transactions.events import FenceCause, TransactionalIdsExpired
from muster.actors.transactions.shard import Shard, TimerKind, TimerName
from muster.actors.transactions.state import ENDED
from muster.actors.transactions.types import TransactionalId

ABORT_TIMER = TimerName(TimerKind.ABORT)
REMOVE_TIMER = TimerName(TimerKind.REMOVE)
_REMOVED_AT_ONCE = 1000
"""Tombstones of one write."""


def arm_abort(shard: Shard, delay_ms: int | None = None) -> None:
    interval_ms = shard.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
    shard.timers.set(ABORT_TIMER, shard.now_ms + (interval_ms if delay_ms is None else delay_ms))


def arm_remove(shard: Shard, delay_ms: int | None = None) -> None:
    interval_ms = shard.config.transaction_remove_expired_transaction_cleanup_interval_ms
    shard.timers.set(REMOVE_TIMER, shard.now_ms + (interval_ms if delay_ms is None else delay_ms))


def on_abort(shard: Shard) -> None:
    """Check all Ongoing transactions, and again after an interval.

    One is fenced in a step, until none is left: a record that the log refuses is of that transaction only. The next
    check tries again.
    """
    timed_out = shard.timed_out
    if not timed_out:
        timed_out.extend(each for each in shard.hard.ongoing if _has_timed_out(shard, each))
    fenced = False
    while timed_out and not fenced:
        transactional_id = timed_out.popleft()
        if transactional_id in shard.hard.ongoing and _has_timed_out(shard, transactional_id):
            try:
                fence(shard, transactional_id, FenceCause.TIMED_OUT)
            except ApiError:  # no producer id at hand
                timed_out.clear()
            else:
                fenced = True
    arm_abort(shard, 0 if timed_out else None)


def _has_timed_out(shard: Shard, transactional_id: TransactionalId) -> bool:
    return has_timed_out(shard.hard.entries[transactional_id].metadata, shard.now_ms)


def on_remove(shard: Shard) -> None:
    """Check all ids, and again after an interval, or at once if there are more than one write takes."""
    oldest_ms = shard.now_ms - shard.config.transactional_id_expiration_ms
    expired = (
        transactional_id
        for transactional_id, entry in shard.hard.entries.items()
        if entry.metadata.state in ENDED
        and entry.metadata.last_update_ms <= oldest_ms
        and transactional_id not in shard.sendings
    )
    found = tuple(islice(expired, _REMOVED_AT_ONCE))
    for transactional_id in found:
        shard.write(transactional_id, None)
    if found:
        shard.follow(lambda _: shard.report(TransactionalIdsExpired(transactional_ids=found)))
    arm_remove(shard, 0 if len(found) == _REMOVED_AT_ONCE else None)

"""Deliberately broken transaction coordinators that the simulation must detect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.log.transactions import verification
from muster.actors.transactions import coordinator, ends, expiry, markers, shard
from muster.actors.transactions.apis import end_txn, init_producer_id, partitions
from muster.actors.transactions.codec import records
from muster.actors.transactions.hard import HardState
from muster.actors.transactions.shard import Held, Shard
from muster.actors.transactions.state import Entry, TransactionState
from tests.simulation.planted.planting import Change, Mutant, planting

MUTANTS: list[Mutant] = []
_mutant = planting(MUTANTS)


@_mutant("complete_after_every_marker", "what_is_committed_is_visible", "nothing_hangs", "all_or_nothing")
def _complete_after_the_first_marker() -> list[Change]:
    marked = markers.marked

    def mutant(shard: Shard, name: Any, decision: int, results: Any) -> None:
        sending = shard.sendings.get(name)
        if sending is not None and sending.decision == decision and ErrorCode.none in results.values():
            sending.remaining &= results.keys()
        marked(shard, name, decision, results)

    return [(markers, "marked", mutant)]


@_mutant("complete_after_every_marker", "nothing_hangs", "the_core_never_fails")
def _a_partition_that_is_down_counts_as_done() -> list[Change]:
    return [(markers, "_DONE", markers._DONE | {ErrorCode.not_leader_or_follower, ErrorCode.network_exception})]


@_mutant("nothing_hangs")
def _markers_are_not_repeated() -> list[Change]:
    return [(markers, "on_repeat", lambda *_: None)]


@_mutant("nothing_hangs")
def _decided_transactions_are_forgotten_at_a_failover() -> list[Change]:
    return [(coordinator, "PREPARED", frozenset())]


@_mutant("nothing_hangs")
def _transactions_do_not_time_out() -> list[Change]:
    return [(expiry, "has_timed_out", lambda *_: False)]


@_mutant("markers_follow_the_decision")
def _markers_before_the_decision_is_durable() -> list[Change]:
    def mutant(shard: Shard, name: Any) -> None:
        markers._begin(shard, name, 10**9)

    return [(markers, "decided", mutant)]


@_mutant("a_success_is_durable", "no_success_for_the_fenced", "the_end_gives_the_present_producer")
def _replies_do_not_wait_for_the_log() -> list[Change]:
    def mutant(shard: Shard, write: Any, held: Held) -> None:
        shard.reply(held.token, held.response)

    return [(Shard, "_hold", mutant)]


@_mutant("a_success_is_durable")
def _what_is_in_memory_is_a_member() -> list[Change]:
    reply_of = Shard.reply_of

    def mutant(shard: Shard, name: Any, token: Any, request: Any, response: Any) -> None:
        if hasattr(response, "errors"):
            shard.reply(token, response)
        else:
            reply_of(shard, name, token, request, response)

    return [(Shard, "reply_of", mutant)]


@_mutant("every_request_is_answered", "the_core_never_fails")
def _waiting_ends_are_not_answered() -> list[Change]:
    def mutant(shard: Shard, held: Held) -> None:
        if held.after_markers_of is None:
            shard.reply(held.token, held.response)

    return [(Shard, "_release", mutant)]


@_mutant("no_success_for_the_fenced", "a_success_is_durable", "the_end_gives_the_present_producer")
def _any_epoch_is_the_present_one() -> list[Change]:
    return [(partitions, "check_producer", lambda *_: None), (end_txn, "check_producer", lambda *_: None)]


@_mutant(
    "no_success_for_the_fenced",
    "epochs_never_fall",
    "what_is_aborted_is_not_visible",
    "all_or_nothing",
    "nothing_hangs",
)
def _an_abort_by_the_coordinator_keeps_the_epoch() -> list[Change]:
    prepare = ends.prepare

    def mutant(shard: Shard, entry: Entry, *, commit: bool, bumps_epoch: bool) -> Entry:
        prepared = prepare(shard, entry, commit=commit, bumps_epoch=bumps_epoch)
        return Entry(replace(prepared.metadata, producer_epoch=entry.metadata.producer_epoch), prepared.last_epoch)

    return [(ends, "prepare", mutant), (ends, "MAX_EPOCH", -1)]


@_mutant("no_success_for_the_fenced")
def _the_newest_protocol_keeps_the_epoch() -> list[Change]:
    prepare = ends.prepare

    def mutant(shard: Shard, entry: Entry, *, commit: bool, bumps_epoch: bool) -> Entry:
        prepared = prepare(shard, entry, commit=commit, bumps_epoch=bumps_epoch)
        return Entry(replace(prepared.metadata, producer_epoch=entry.metadata.producer_epoch), prepared.last_epoch)

    return [(end_txn, "prepare", mutant)]


@_mutant("an_outcome_never_changes")
def _every_decision_completes_as_a_commit() -> list[Change]:
    complete = markers._completed

    def mutant(metadata: Any, now_ms: int) -> Any:
        return replace(complete(metadata, now_ms), state=TransactionState.COMPLETE_COMMIT)

    return [(markers, "_completed", mutant), (shard, "MAY_COME_FROM", _Anything())]


class _Anything:
    def __getitem__(self, _: object) -> Any:
        return self

    def __contains__(self, _: object) -> bool:
        return True


@_mutant("an_outcome_never_changes", "every_transaction_is_decided", "the_core_never_fails")
def _init_does_not_end_an_open_transaction() -> list[Change]:
    def mutant(shard: Shard, request: Any, token: Any) -> None:
        before = shard.hard.entries.get(request.transactional_id)
        metadata = init_producer_id._first(shard) if before is None else before.metadata
        init_producer_id._take_over(shard, request.transactional_id, request, token, Entry(metadata))

    return [(init_producer_id, "init_producer_id", mutant), (shard, "MAY_COME_FROM", _Anything())]


@_mutant("records_say_what_the_state_is")
def _a_failed_write_is_not_undone() -> list[Change]:
    put = HardState.put

    def mutant(shard: Shard, write: Any, error: Any) -> None:
        HardState.put = lambda *_: None  # type: ignore[method-assign]
        try:
            write_failed(shard, write, error)
        finally:
            HardState.put = put  # type: ignore[method-assign]

    write_failed = Shard.write_failed
    return [(Shard, "write_failed", mutant)]


@_mutant("records_say_what_the_state_is")
def _records_lose_the_next_producer() -> list[Change]:
    encode = records._encode
    return [(records, "_encode", lambda value, version: encode(replace(value, client_transaction_version=0), version))]


@_mutant("every_request_is_answered")
def _resigning_forgets_who_waits() -> list[Change]:
    return [(Shard, "fail_all_held", lambda *_: None)]


@_mutant("only_idle_ids_expire", "the_core_never_fails")
def _open_transactions_expire() -> list[Change]:
    return [(expiry, "ENDED", frozenset(TransactionState)), (shard, "MAY_COME_FROM", _Anything())]


@_mutant("correct_batches_are_not_refused")
def _the_marker_before_takes_the_guard_of_the_next_transaction() -> list[Change]:
    return [(verification, "_guard_of", lambda held: held.guard)]


@_mutant("nothing_hangs", "what_is_aborted_is_not_visible", "all_or_nothing")
def _batches_need_no_confirmation() -> list[Change]:
    return [(verification.Verification, "_query", _confirmed)]


async def _confirmed(_: Any, verifier: Any, held: Any) -> list[ErrorCode]:
    return [ErrorCode.none] * len(held)

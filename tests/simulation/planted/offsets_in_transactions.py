"""Mutants of what the coordinator does with offsets in transactions."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from muster.actors.group import expiry
from muster.actors.group.apis import offsets, transactions
from muster.actors.group.hard import HardState
from muster.actors.group.shard import Shard
from muster.actors.group.transactions import pending
from muster.actors.group.transactions.pending import PendingOffsets
from tests.simulation.planted.planting import Change, Mutant, planting

MUTANTS: list[Mutant] = []
_mutant = planting(MUTANTS)


@_mutant("reads_show_what_is_durable", "replay_equals_live", "no_acknowledged_commit_is_lost")
def _an_abort_commits() -> list[Change]:
    end = HardState.end_transaction

    def mutant(hard: HardState, producer_id: int, *, commit: bool) -> Any:
        return end(hard, producer_id, commit=True)

    return [(HardState, "end_transaction", mutant)]


@_mutant("replay_equals_live", "no_acknowledged_commit_is_lost")
def _a_commit_overwrites_a_later_one() -> list[Change]:
    return [(pending, "_superseded", lambda pendings: pendings)]


@_mutant("replay_equals_live")
def _pending_offsets_are_kept_after_the_end() -> list[Change]:
    take = PendingOffsets.take

    def mutant(self: PendingOffsets, producer_id: int, key: Any, *, commit: bool) -> Any:
        value, prior = take(self, producer_id, key, commit=commit)
        if not commit:
            self.undo(prior)
        return value, prior

    return [(PendingOffsets, "take", mutant)]


@_mutant("replay_equals_live", "unstable_is_what_a_transaction_may_still_change")
def _a_tombstone_keeps_pending_offsets() -> list[Change]:
    return [(PendingOffsets, "removed", lambda self, key: [])]


@_mutant("unstable_is_what_a_transaction_may_still_change")
def _pending_offsets_are_stable() -> list[Change]:
    return [(offsets, "_without_unstable", lambda topic, pending: topic)]


@_mutant("what_is_acknowledged_is_durable")
def _a_marker_is_acknowledged_early() -> list[Change]:
    end = transactions.end

    def mutant(shard: Shard, request: Any, token: Any) -> None:
        with patch.object(shard, "reply_when_durable", lambda token, request, response: shard.reply(token, response)):
            end(shard, request, token)

    return [(transactions, "end", mutant)]


@_mutant("only_members_speak_for_the_group")
def _anyone_commits_in_a_transaction() -> list[Change]:
    return [(transactions, "_check_commit", lambda group, request: None)]


@_mutant("no_acknowledged_commit_is_lost", "groups_in_memory_are_those_of_the_log")
def _offsets_with_pending_ones_expire() -> list[Change]:
    expire = expiry._expire

    def mutant(shard: Shard, group: Any) -> None:
        with patch.object(shard.hard.pending, "of_group", lambda group: {}):
            expire(shard, group)

    return [(expiry, "_expire", mutant)]

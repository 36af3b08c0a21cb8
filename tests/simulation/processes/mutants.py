"""The shell, the log and writers to ZooKeeper, deliberately broken: the simulation of processes must detect each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.actors.group import lease
from muster.actors.group.shard import Shard, session_timer
from muster.actors.group.state import Group, Member
from muster.actors.group.transactions.loading import LatestRecords
from muster.actors.group.types import Outcome
from muster.actors.log.committer import Committer, Write
from muster.actors.log.errors import FencedEpoch, LogError
from muster.actors.log.files import loading
from muster.actors.log.files.directory import Claim
from muster.actors.log.format.records import Record as LogRecord
from muster.actors.log.storage import DirectoryStorage
from muster.actors.log.upkeep.flushing import Flushing
from muster.actors.offsets import mapping_writer
from muster.actors.offsets.mapping_writer import MappingWriter
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.wire.internal.leases import ChannelLeases, MemberLease, Use
from muster.placement import epochs
from muster.placement.lease import LEASE_MS
from muster.placement.mapping.writes import _Transaction
from muster.placement.zookeeper.client import ZooKeeperClient
from muster.placement.zookeeper.ephemeral import EphemeralNode
from tests.simulation.planted.planting import Change, Mutant, planting

MUTANTS: list[Mutant] = []
_mutant = planting(MUTANTS)

LOST = "no_acknowledged_commit_is_lost"
FENCED = "a_fenced_copy_acknowledges_nothing"
TWICE = "an_offset_is_acknowledged_once"
SYNCED = "what_is_acknowledged_is_synced"
WELL = "everything_gets_well"
LEASED = "a_leased_answer_is_true"
EARLY = "no_member_expires_early"
STAYS = "no_member_stays_without_a_sign"


@_mutant(FENCED, TWICE, LOST)
def _the_claim_is_not_checked() -> list[Change]:
    return [(Claim, "check", lambda claim: None)]


@_mutant(FENCED, TWICE, LOST)
def _claims_of_lower_epochs_are_kept() -> list[Change]:
    def take(cls: type[Claim], directory: Path, epoch: int) -> Claim:
        claim = cls(directory / f"leader-epoch-{epoch:010d}")
        try:
            claim._path.touch(exist_ok=False)
        except FileExistsError:
            raise FencedEpoch(f"{epoch} has been used") from None
        return claim

    return [(Claim, "take", classmethod(take))]


def _claim(writer: Committer) -> Claim:
    assert isinstance(writer._storage, DirectoryStorage)
    return writer._storage._claim


@_mutant(FENCED, TWICE, LOST)
def _a_fenced_error_is_swallowed() -> list[Change]:
    write = Committer._write_durably

    def mutant(writer: Committer, writes: list[Write], begin_segment: bool, is_synced: bool) -> Any:
        claim = _claim(writer)
        check = claim.check

        def swallow() -> None:
            with suppress(LogError):
                check()

        claim.check = swallow  # type: ignore[method-assign]
        return write(writer, writes, begin_segment, is_synced)

    return [(Committer, "_write_durably", mutant)]


@_mutant(FENCED, TWICE, LOST, SYNCED)
def _the_claim_is_checked_before_the_write() -> list[Change]:
    """Acknowledgements of a fenced copy may be in a file that its successor has removed: it is not synced then."""
    commit = Committer._write_durably

    def mutant(writer: Committer, writes: list[Write], begin_segment: bool, is_synced: bool) -> Any:
        storage = writer._storage
        assert isinstance(storage, DirectoryStorage)
        claim = storage._claim
        claim.check()
        storage._claim = replace_check(claim)
        try:
            return commit(writer, writes, begin_segment, is_synced)
        finally:
            storage._claim = claim

    def replace_check(claim: Claim) -> Claim:
        unchecked = Claim(claim._path)
        unchecked.check = lambda: None  # type: ignore[method-assign]
        return unchecked

    return [(Committer, "_write_durably", mutant)]


@_mutant(LOST)
def _commits_are_answered_before_they_are_durable() -> list[Change]:
    def mutant(shard: Shard, token: Any, request: Any, response: Any) -> None:
        shard.reply(token, response)

    return [(Shard, "reply_when_durable", mutant)]


@_mutant("what_is_acknowledged_is_synced", LOST)
def _nothing_is_synced() -> list[Change]:
    return [(Flushing, "wants_sync", lambda flushing, batches, config: False)]


@_mutant(LOST, TWICE, "no_callback_fails")
def _the_open_part_of_the_log_is_not_scanned() -> list[Change]:
    counting = loading.counting

    def mutant(manifest: Any, files: Any, point: Any) -> Any:
        return {name: end for name, end in counting(manifest, files, point).items() if name in manifest.ends}

    return [(loading, "counting", mutant)]


@_mutant(LOST)
def _the_first_record_of_a_key_is_replayed() -> list[Change]:
    add = LatestRecords.add

    def mutant(latest: LatestRecords[LogRecord], entries: Iterable[LogRecord]) -> int:
        first = latest._latest
        return add(latest, (first.get(entry.key or b"", entry)._replace(offset=entry.offset) for entry in entries))

    return [(LatestRecords, "add", mutant)]


@_mutant("an_epoch_is_given_once", "an_epoch_has_one_copy")
def _an_epoch_is_taken_without_its_version() -> list[Change]:
    commit = ZooKeeperClient.commit

    def mutant(zk: ZooKeeperClient, operations: Any, **how: Any) -> None:
        commit(zk, [each[:3] if each[0] == "set_data" else each for each in operations if each[0] != "check"], **how)

    return [(ZooKeeperClient, "commit", mutant), (epochs, "check_holder", lambda zk, holder: None)]


@_mutant("a_copy_writes_only_newer_statements", WELL)
def _an_older_statement_replaces_a_newer_one() -> list[Change]:
    return [(mapping_writer, "_newer", lambda path, node, ours: False)]


@_mutant("a_copy_writes_only_newer_statements", WELL)
def _the_mapping_is_written_without_versions() -> list[Change]:
    operations = _Transaction.operations

    def mutant(transaction: _Transaction) -> Any:
        for name, path, *arguments in operations(transaction):
            if name == "set_data" and len(arguments) == 2:
                yield name, path, arguments[0]
            elif name == "delete":
                yield name, path, -1
            elif name != "check":
                yield name, path, *arguments

    return [(_Transaction, "operations", lambda transaction: [*mutant(transaction)])]


@_mutant(WELL)
def _an_expired_session_is_ignored() -> list[Change]:
    def mutant(node: EphemeralNode, state: str) -> None:
        if state == "CONNECTED" and not hasattr(node, "seen"):
            node.seen = True  # type: ignore[attr-defined]
            node._due.set()

    return [(EphemeralNode, "_state_changed", mutant)]


@_mutant(LOST, WELL)
def _a_failed_log_is_served_on() -> list[Change]:
    return [(OffsetsPartition, "_give_up", lambda partition, write, error: None)]


@_mutant("no_callback_fails", WELL)
def _waiting_for_zookeeper_blocks_the_event_loop() -> list[Change]:
    put = MappingWriter.put

    def mutant(writer: MappingWriter, statements: Any) -> None:
        put(writer, statements)
        writer.flush(1.0)

    return [(MappingWriter, "put", mutant)]


@_mutant(LEASED)
def _a_gateway_ignores_the_end_of_a_lease() -> list[Change]:
    return [(ChannelLeases, "revoke", lambda leases, group: None)]


@_mutant(LEASED)
def _a_gateway_uses_leases_of_a_silent_coordinator() -> list[Change]:
    def use(member: MemberLease, now_s: float, again: Callable[[], None]) -> Use:
        if member._group.is_revoked:
            return Use.NO
        is_unreported, member.seen_s = member.seen_s is not None, now_s
        if not is_unreported:
            member._leases._report([member])
        return Use.YES

    return [(MemberLease, "use", use)]


@_mutant(LEASED)
def _leases_outlive_the_log() -> list[Change]:
    """Let a copy that has failed still respond to pings."""

    def respond_to_last(partition: OffsetsPartition, outcome: Outcome) -> None:
        for token, response in outcome.replies:
            if waiting := partition._waiting_requests.pop(token, None):
                partition._reply(waiting, response)

    return [(OffsetsPartition, "_respond_to_last", respond_to_last)]


@_mutant(EARLY)
def _what_gateways_have_seen_does_not_count() -> list[Change]:
    return [(lease, "seen", lambda shard, heartbeats: None)]


@_mutant(EARLY)
def _reports_on_the_way_are_not_waited_for() -> list[Change]:
    return [(lease, "postpone", lambda shard, group, member: False)]


@_mutant(EARLY)
def _gateways_report_what_they_have_seen_later() -> list[Change]:
    def report(leases: ChannelLeases, member: MemberLease, now_s: float, again: Callable[[], None]) -> Use:
        leases.report_repeated(member)
        return Use.YES

    return [(ChannelLeases, "report", report)]


@_mutant(STAYS)
def _a_dead_member_is_waited_for_again_and_again() -> list[Change]:
    def postpone(shard: Shard, group: Group, member: Member) -> bool:
        shard.timers.set(session_timer(group, member), shard.now_ms + LEASE_MS)
        return True

    return [(lease, "postpone", postpone)]


@_mutant(STAYS)
def _confirmations_of_gateways_are_ignored() -> list[Change]:
    return [(lease, "confirmed", lambda shard, groups: None)]

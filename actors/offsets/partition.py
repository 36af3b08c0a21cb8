"""The shell around one ``__consumer_offsets`` partition: what groups need besides what all coordinators do."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, Protocol
from uuid import UUID

from muster.actors.coordinator.batching import Written
from muster.actors.coordinator.shell import CoordinatorShell, WaitingRequest
from muster.actors.group.codec import adapters
from muster.actors.group.config import GroupConfig
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.coordinator import Coordinator
from muster.actors.group.events import ROUTINE
from muster.actors.group.messages import (
    HeartbeatResponse,
    OffsetCommit,
    OffsetCommitResponse,
    Request,
    Response,
    TxnOffsetCommit,
    failed,
)
from muster.actors.group.transactions.loading import LatestRecords
from muster.actors.group.types import GroupId, MemberId, Outcome, Record, WriteId
from muster.actors.log.config import LogConfig
from muster.actors.log.format.control import EndOfTransaction
from muster.actors.log.format.records import Record as LogRecord
from muster.actors.log.partition import PartitionLog
from muster.actors.offsets.commit_turns import CommitTurns
from muster.actors.offsets.committed import CommittedOffsets
from muster.actors.offsets.leases import Leases
from muster.actors.offsets.metrics import PartitionMetrics
from muster.actors.offsets.transactions import NoCoordinators, OffsetTransactions
from muster.actors.runtime.memory import gc_paused
from muster.actors.runtime.process import now_ms
from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.envelope import SeenLease
from muster.actors.wire.internal.listener import Peer
from muster.actors.wire.internal.markers import Marker, write_marked
from muster.actors.wire.internal.verification import TransactionVerifier
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode, Header
from muster.placement.client import Context
from muster.placement.mapping.registration import Change, Registration, RegistrationUpdate, Trace
from muster.placement.view import OFFSETS_TOPIC, ClusterView, Topic

log = logging.getLogger(__name__)


class UpdateSink(Protocol):
    """Where registrations go besides the gateways: ZooKeeper (write-behind), table ``registrations``. Never raises."""

    def put(self, updates: tuple[Change, ...]) -> None: ...


class OffsetsPartition(CoordinatorShell[Outcome]):
    """Serves one partition; a :class:`muster.actors.wire.internal.listener.Handler`."""

    _core: Coordinator
    _routine = frozenset(ROUTINE)

    def __init__(
        self,
        *,
        partition: int,
        epoch: int,
        config: GroupConfig,
        partition_log: PartitionLog,
        sink: UpdateSink,
        topic_id: UUID,
        fail: Callable[[], None],
        verifier: TransactionVerifier | None = None,
    ) -> None:
        """``fail``: as in :class:`CoordinatorShell`. Without ``verifier`` no transaction can commit offsets."""
        core = Coordinator(partition=partition, epoch=epoch, config=config, new_id=lambda: str(uuid.uuid4()))
        super().__init__(
            core,
            topic=OFFSETS_TOPIC,
            topic_id=topic_id,
            partition=partition,
            epoch=epoch,
            partition_log=partition_log,
            linger_ms=config.group_coordinator_append_linger_ms,
            timeout_ms=config.offsets_commit_timeout_ms,
            fail=fail,
        )
        self._transactions = OffsetTransactions(
            core,
            topic_id=topic_id,
            partition=partition,
            partition_log=partition_log,
            appends=self._appends,
            verifier=verifier or NoCoordinators(),
            call_core=super()._call_core,
            apply=self._guarded,
            respond=lambda waiting, response: waiting.peer.reply(waiting.token, self._write(waiting.header, response)),
        )
        self._commits = CommitTurns(
            core,
            limit_bytes=lambda: self._appends.limit_bytes,
            expect=self._expect,
            drop=self._drop,
            refuse=self._refuse,
            apply=self._committed,
        )
        self.sinks: list[UpdateSink] = [sink]
        """Where registration changes go besides the gateways. Add before ``activate``."""
        self._topics: Mapping[str, Topic] = {}
        self._peers: set[Peer] = set()
        self._leases = Leases()
        self._metrics = PartitionMetrics(partition, epoch, core)
        self.observers.add(self._metrics.observe)
        self.query_handlers["heard"] = lambda query: {}
        self.query_handlers["heartbeats"] = self._heartbeats
        self.query_handlers["metrics"] = self._metrics.response
        self.query_handlers["committed"] = CommittedOffsets(core).response

    def configure(self, config: GroupConfig, log_config: LogConfig) -> None:
        """Apply other configurations from now on. The linger does not change."""
        self._core.configure(config)
        self._configure(log_config, config.offsets_commit_timeout_ms)

    def load(self) -> int:
        count = 0
        latest: LatestRecords[LogRecord] = LatestRecords()
        with gc_paused():
            for header, records in self._log.replay_batches():
                if isinstance(records, EndOfTransaction):
                    latest.end(header.producer_id, commit=records.commit)
                elif header.is_transactional:
                    count += latest.add_pending(header.producer_id, records)
                else:
                    count += latest.add(records)
            for entry, producer_id in latest.entries():
                record = Record(entry.key or b"", entry.value)
                self._core.replay(entry.offset, record, entry.timestamp_ms, producer_id)
        return count

    def activate(self) -> None:
        """Start serving: members get a full session timeout from now."""
        super().activate()
        self._metrics.active()

    @property
    def coordinator(self) -> Coordinator:
        """The core. Read only."""
        return self._core

    def topic_id_of(self, topic: str) -> UUID | None:
        """Return the id of the topic with that name, if there is one now."""
        known = self._topics.get(topic)
        return None if known is None else known.topic_id

    def has_members(self, group: str) -> bool:
        """Whether the group has members now."""
        classic, consumer = self._core.groups.get(GroupId(group)), self._core.consumer_groups.get(GroupId(group))
        return bool((classic and classic.members) or (consumer and consumer.members))

    def _heartbeats(self, query: dict[str, Any]) -> dict[str, Any]:
        """``ages_ms``: how long ago each member of ``group`` was last heard, as far as that is known."""
        if not isinstance(group := query.get("group"), str):
            return {"error": "heartbeats needs a group"}
        at_ms = now_ms()
        return {"ages_ms": {member: max(at_ms - ms, 0) for member, ms in self._core.heard_ms(GroupId(group)).items()}}

    def registrations(self) -> tuple[Registration, ...]:
        """Which client consumes for which group, as this coordinator knows it now."""
        return self._core.registrations()

    def joined(self, peer: Peer) -> None:
        if not peer.is_gateway:
            return
        self._peers.add(peer)
        registrations = self._core.registrations()
        peer.send(envelope.write_updates(self.partition, self.epoch, registrations, snapshot=True))
        super().joined(peer)

    def left(self, peer: Peer) -> None:
        super().left(peer)
        self._peers.discard(peer)
        unreported, confirmed = self._leases.left(peer)
        if unreported and not self._failed:
            self._guarded(self._core.seen, unreported, now_ms())
        self._confirm(confirmed)

    def heartbeats_seen(self, peer: Peer, leases: list[SeenLease]) -> None:
        if not self._failed:
            self._guarded(self._seen, peer, leases, now_ms())

    def _seen(self, peer: Peer, leases: list[SeenLease], at_ms: int) -> Outcome:
        return self._core.seen(self._leases.seen(peer, leases, at_ms), at_ms)

    def lease_confirmed(self, peer: Peer, lease: int) -> None:
        self._confirm(self._leases.confirmed(peer, lease))

    def _confirm(self, groups: Collection[GroupId]) -> None:
        if groups and not self._failed:
            self._guarded(self._core.leases_confirmed, groups, now_ms())

    def markers(self, peer: Peer, token: int, markers: list[Marker]) -> None:
        self._transactions.markers(markers, lambda marked: peer.send(write_marked(token, marked)))

    async def stop(self) -> None:
        self._transactions.stop()
        await super().stop()

    def _call_core(self, waiting: WaitingRequest, request: Request, context: Context) -> None:
        if isinstance(request, OffsetCommit):
            self._commits.put((waiting, request, context))
            return
        self._commits.end()
        if isinstance(request, TxnOffsetCommit):
            self._transactions.commit(waiting, request, context)
        else:
            super()._call_core(waiting, request, context)

    def _end_turn(self) -> None:
        self._commits.end()

    def _committed(self, outcome: Outcome) -> None:
        self._applied(outcome)
        self._appends.turn_ended()

    def _append(self, outcome: Outcome, write: WriteId) -> ErrorCode | None:
        if outcome.producer is None and outcome.marker is None:
            return super()._append(outcome, write)
        return self._transactions.append(outcome, write)

    def _read(self, header: Header, frame: bytes) -> Request:
        return adapters.read(header, frame)

    def _write(self, header: Header, response: Response) -> bytes:
        if isinstance(response, HeartbeatResponse):
            correlation_id = header.correlation_id.to_bytes(4, "big", signed=True)
            return correlation_id + _heartbeat_tail(header.api_version, response)
        if isinstance(response, OffsetCommitResponse):  # the same in all versions
            return codec.encode_response(adapters.OFFSET_COMMIT, header.api_version, header.correlation_id, response)
        return adapters.write(header, response)

    def _refused(self, request: Request) -> Response:
        return failed(request, ErrorCode.unknown_server_error)

    def _written(self, writes: Sequence[Written]) -> Outcome:
        return self._core.written(writes[-1].write, now_ms())

    def _apply(self, outcome: Outcome) -> None:
        confirmed = self._leases.revoke(outcome.revoked) if outcome.revoked else ()  # before all else that is sent
        super()._apply(outcome)
        if confirmed:
            self._confirm(confirmed)

    def _send(self, outcome: Outcome) -> None:
        if outcome.updates:  # before the responses: no client acts on one before the gateways have the update
            self._publish(outcome.updates)
        if self._transactions.ends:
            self._transactions.replied(outcome.replies)
        if not outcome.leases:
            super()._send(outcome)
            return
        leased = {token: (group, member) for token, group, member in outcome.leases}
        for token, response in outcome.replies:
            waiting = self._waiting_requests.pop(token, None)
            if waiting is not None:
                self._respond(waiting, response, leased.get(token))

    def _respond(self, waiting: WaitingRequest, response: Response, leased: tuple[GroupId, MemberId] | None) -> None:
        frame = self._write(waiting.header, response)
        if leased is None or waiting.peer not in self._peers:
            waiting.peer.reply(waiting.token, frame)
        else:
            self._leases.reply(waiting.peer, waiting.token, frame, *leased)

    def _respond_to_last(self, outcome: Outcome) -> None:
        self._leases.revoke(outcome.revoked)
        self._transactions.replied(outcome.replies)
        super()._respond_to_last(outcome)

    def _publish(self, updates: tuple[RegistrationUpdate, ...]) -> None:
        message = envelope.write_updates(self.partition, self.epoch, updates, snapshot=False)
        for peer in self._peers:
            peer.send(message)
        changes = tuple(update for update in updates if not isinstance(update, Trace))
        if changes:
            for sink in self.sinks:
                sink.put(changes)

    def follow(self, view: ClusterView) -> None:
        """Let the core know the topics, and delete the offsets of those that were deleted or recreated."""
        gone = {
            name
            for name, topic in self._topics.items()
            if name not in view.topics or view.topics[name].topic_id != topic.topic_id
        }
        if self._topics != view.topics:
            known = {name: TopicInfo(topic.topic_id, topic.partitions) for name, topic in view.topics.items()}
            self._core.topics_known(known, view.controller_epoch << 32 | view.version)
        self._topics = view.topics
        if gone:
            self._guarded(self._core.topics_deleted, gone, now_ms())


@cache
def _heartbeat_tail(api_version: int, response: HeartbeatResponse) -> bytes:
    """Return a heartbeat response without its correlation id: there are only as many as errors and versions."""
    frame = codec.encode_response(adapters.HEARTBEAT, api_version, 0, adapters.encode(api_version, response))
    return frame[4:]

"""The group coordinator of one ``__consumer_offsets`` partition: a deterministic state machine.

No I/O, no clock, no randomness: time and ids are arguments. Every method that can change state returns an Outcome.
The shell loads the coordinator with :meth:`Coordinator.replay` and :meth:`Coordinator.loaded`, passes it requests and
time, appends the records that it returns, and reports when they are durable. After a failed append, the shell reports
the failure and starts again from the log, with a new Coordinator.

Every token gets exactly one response, at the latest when the coordinator resigns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace

from kio.schema.errors import ErrorCode

from muster.actors.group import expiry, lease, rebalance, simple, watchdog
from muster.actors.group.apis import admin, heartbeat, join, leave, offsets, sync, transactions
from muster.actors.group.apis.arguments import check_arguments
from muster.actors.group.codec.records import UnknownKey
from muster.actors.group.config import GroupConfig
from muster.actors.group.consumer import classic_members, conversion, describe, epochs
from muster.actors.group.consumer import departure as consumer_departure
from muster.actors.group.consumer import heartbeat as consumer_heartbeat
from muster.actors.group.consumer.state import ConsumerGroup
from muster.actors.group.consumer.topics import TopicInfo, Topics
from muster.actors.group.errors import NOT_SERVED, ApiError
from muster.actors.group.events import (
    Cause,
    ConsumerGroupRestored,
    GroupRestored,
    PartitionLoaded,
    RebalanceAborted,
    RecordsSkipped,
    Removal,
)
from muster.actors.group.hard import HardState
from muster.actors.group.lease import SeenHeartbeat
from muster.actors.group.membership import fail_parked
from muster.actors.group.messages import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    ListedGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Request,
    SyncGroup,
    TxnOffsetCommit,
    WriteTxnMarker,
    failed,
)
from muster.actors.group.shard import Shard
from muster.actors.group.state import Group, GroupState, restored
from muster.actors.group.timers import TimerKind, TimerName
from muster.actors.group.types import GroupId, MemberId, Outcome, Phase, Record, Token, WriteId
from muster.actors.group.watchdog import RebalanceWait, in_rebalance
from muster.placement.client import Context
from muster.placement.mapping.registration import Registration


class Coordinator:
    """Owns the groups that hash to one partition, during one leader epoch."""

    def __init__(self, *, partition: int, epoch: int, config: GroupConfig, new_id: Callable[[], str]) -> None:
        """``new_id`` returns the random part of member ids, a UUID in production."""
        self._shard = Shard(partition=partition, epoch=epoch, config=config, new_id=new_id)
        self._phase = Phase.LOADING
        self._skipped: dict[int, tuple[int, int]] = {}

    def configure(self, config: GroupConfig) -> None:
        """Apply another configuration from the next step on."""
        self._shard.config = config

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def hard_state(self) -> HardState:
        """The state of the log, including everything returned to be appended. Read only."""
        return self._shard.hard

    @property
    def groups(self) -> dict[GroupId, Group]:
        """The groups of the classic protocol and those without one, in memory. Read only."""
        return self._shard.groups

    def replay(self, offset: int, record: Record, timestamp_ms: int, producer_id: int | None = None) -> None:
        """Apply a record of the log, in log order. Raises CorruptRecord if it is unreadable: the partition cannot load.

        ``producer_id`` is that of a transactional batch without a marker: its offsets are pending.
        Types that only share groups and streams groups use are skipped; ``loaded`` reports how many.
        """
        applied = self._shard.hard.replay(record, producer_id)
        if isinstance(applied, UnknownKey):
            count, first = self._skipped.get(applied.key_type, (0, offset))
            self._skipped[applied.key_type] = (count + 1, first)

    def loaded(self, now_ms: int) -> Outcome:
        """Start serving: the whole log was replayed. Every member gets a full session timeout from now."""
        shard = self._shard
        shard.begin(now_ms)
        self._phase = Phase.ACTIVE
        for group_id in shard.hard.known_groups():
            self._restore(group_id)
        expiry.arm_expiry(shard)
        for key_type, (count, first) in sorted(self._skipped.items()):
            shard.report(RecordsSkipped(key_type=key_type, count=count, first_offset=first))
        groups = len(shard.groups) + len(shard.hard.consumer_groups)
        shard.report(PartitionLoaded(groups=groups, offsets=shard.hard.offset_count()))
        return shard.finish()

    def step(self, request: Request, context: Context, token: Token, now_ms: int) -> Outcome:
        """Handle a request. If its token gets no reply, here or later from ``written``, the request is parked."""
        shard = self._shard
        shard.begin(now_ms)
        try:
            self._check(request, context)
            self._handle(request, context, token)
        except ApiError as refused:
            response = failed(request, refused.error)
            if isinstance(response, JoinGroupResponse) and refused.member_id is not None:
                response = JoinGroupResponse(error_code=refused.error, member_id=refused.member_id)
            elif isinstance(response, ConsumerGroupHeartbeatResponse):
                response = replace(response, error_message=refused.message)
            shard.reply(token, response)
        except Exception:
            shard.abandon()
            raise
        return shard.finish()

    def commit_all(self, commits: Iterable[tuple[OffsetCommit, Context, Token]], now_ms: int) -> Outcome:
        """Handle commits in one step, in order: what all of them write is one write. Like ``step``, one by one."""
        shard = self._shard
        shard.begin(now_ms)
        try:
            for request, context, token in commits:
                try:
                    self._check(request, context)
                    offsets.commit(shard, request, context, token)
                except ApiError as refused:
                    shard.reply(token, failed(request, refused.error))
        except Exception:
            shard.abandon()
            raise
        return shard.finish()

    def refusal(self, request: Request, context: Context) -> ErrorCode | None:
        """Return the error of ``step`` for any state of the group; None if the state decides."""
        try:
            self._check(request, context)
        except ApiError as refused:
            return refused.error
        return None

    def seen(self, heartbeats: Iterable[SeenHeartbeat], now_ms: int) -> Outcome:
        """Gateways with a lease have answered these heartbeats."""
        self._shard.begin(now_ms)
        lease.seen(self._shard, heartbeats)
        return self._shard.finish()

    def leases_confirmed(self, groups: Iterable[GroupId], now_ms: int) -> Outcome:
        """Gateways have confirmed that the leases of these groups that have ended are not used any more."""
        self._shard.begin(now_ms)
        if self._phase is Phase.ACTIVE:  # else sessions do not end: the next owner has the members
            lease.confirmed(self._shard, groups)
        return self._shard.finish()

    def tick(self, now_ms: int) -> Outcome:
        """Do what is due, up to the first timer that writes. The rest stays due.

        The log takes or refuses what a step writes as a whole: a record that does not fit is of that timer only.
        """
        shard = self._shard
        shard.begin(now_ms)
        with closing(shard.timers.due(now_ms)) as due:
            while not shard.writes and (timer := next(due, None)) is not None:
                self._fire(timer)
        return shard.finish()

    def next_deadline_ms(self) -> int | None:
        """When to call ``tick``, possibly before anything is due; None: never, in the current state."""
        return self._shard.timers.next_ms()

    def written(self, write: WriteId, now_ms: int) -> Outcome:
        """Continue after a write: its records and all earlier ones are durable."""
        self._shard.begin(now_ms)
        self._shard.written(write)
        return self._shard.finish()

    def write_failed(self, write: WriteId, error: ErrorCode, now_ms: int) -> Outcome:
        """Undo a write: its records and all later ones are not in the log. ``error`` is the log's error."""
        self._shard.begin(now_ms)
        for group_id in self._shard.write_failed(write, error):
            if group_id in self._shard.hard.consumer_groups:
                conversion.restore(self._shard, group_id)
        return self._shard.finish()

    def resign(self, now_ms: int) -> Outcome:
        """Stop serving: waiting requests get NOT_COORDINATOR. Registrations stay; the next owner has them."""
        shard = self._shard
        shard.begin(now_ms)
        self._phase = Phase.RESIGNED
        shard.timers.clear()
        shard.fail_all_held(ErrorCode.not_coordinator)
        for group in shard.groups.values():
            if group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
                shard.report(RebalanceAborted(group=group.id))
            fail_parked(shard, group, ErrorCode.not_coordinator)
            group.move(GroupState.DEAD, now_ms)
        return shard.finish()

    def topics_deleted(self, topics: Collection[str], now_ms: int) -> Outcome:
        """Remove the offsets of deleted topics. Does nothing unless the coordinator is active."""
        self._shard.begin(now_ms)
        if self._phase is Phase.ACTIVE:
            offsets.topics_deleted(self._shard, topics)
        return self._shard.finish()

    def topics_known(self, topics: Mapping[str, TopicInfo], version: int) -> None:
        """All topics of the cluster. ``version`` increases with every change of them."""
        if topics != self._shard.topics.by_name:
            self._shard.topics = Topics(topics, version)

    @property
    def consumer_groups(self) -> Mapping[GroupId, ConsumerGroup]:
        """The groups of the consumer protocol. Read only."""
        return self._shard.hard.consumer_groups

    def listed(self) -> Iterator[ListedGroup]:
        """All groups that reads show, of any protocol."""
        return admin.listed(self._shard)

    def knows(self, group: GroupId) -> bool:
        """Whether there is such a group, of any protocol."""
        return group in self._shard.groups or group in self._shard.hard.consumer_groups

    def registrations(self) -> tuple[Registration, ...]:
        """All clients that consume for a group of this partition, as last reported. Complete once loaded."""
        return self._shard.registry.registrations()

    def registrations_of(self, group_id: GroupId) -> tuple[Registration, ...]:
        """Return the clients that consume for one group, as last reported."""
        return self._shard.registry.of_group(group_id)

    def waiting(self) -> tuple[RebalanceWait, ...]:
        """Every rebalance that has not ended, and whom it waits for."""
        shard = self._shard
        waits = [watchdog.wait_of(shard, group) for group in self.groups.values() if in_rebalance(group)]
        found = (watchdog.wait_of_consumers(shard, group) for group in self.consumer_groups.values())
        return (*waits, *(wait for wait in found if wait is not None))

    def heard_ms(self, group_id: GroupId) -> dict[MemberId, int]:
        """See :func:`muster.actors.group.lease.heard_ms`."""
        return lease.heard_ms(self._shard, group_id)

    def _restore(self, group_id: GroupId) -> None:
        shard = self._shard
        if group_id in shard.hard.consumer_groups:
            self._restore_consumer(group_id)
            return
        group = shard.groups[group_id] = restored(group_id, shard.hard.groups.get(group_id))
        for member in group.members.values():
            shard.arm_session(group, member)
            shard.registry.assigned(group, member)
        if group.members:
            shard.report(
                GroupRestored(
                    group=group.id,
                    generation=group.generation,
                    protocol_type=group.protocol_type,
                    assignments=tuple((member.who, member.assignment) for member in group.members.values()),
                )
            )
        if len(group.members) > shard.config.group_max_size:
            rebalance.prepare(shard, group, Cause.TOO_MANY_MEMBERS)

    def _restore_consumer(self, group_id: GroupId) -> None:
        shard = self._shard
        conversion.restore(shard, group_id)
        group = shard.hard.consumer_groups[group_id]
        if group.members:
            assigned = {each: epochs.named(shard, group.assignment_of(each).assigned) for each in group.members}
            shard.report(
                ConsumerGroupRestored(
                    group=group_id,
                    epoch=group.epoch,
                    assignments=tuple((group.who(each), mine) for each, mine in assigned.items()),
                )
            )

    def _check(self, request: Request, context: Context) -> None:
        """Check a request before the group is examined, in Kafka's order."""
        check_arguments(self._shard.config, request, context)
        if self._phase is Phase.ACTIVE or (self._phase is Phase.LOADING and isinstance(request, Heartbeat)):
            return
        raise ApiError(NOT_SERVED[self._phase])

    def _handle(self, request: Request, context: Context, token: Token) -> None:
        shard = self._shard
        match request:
            case Heartbeat():
                if self._phase is Phase.LOADING:
                    shard.reply(token, HeartbeatResponse())
                else:
                    self._handle_classic(request, context, token)
            case ConsumerGroupHeartbeat():
                consumer_heartbeat.heartbeat(shard, request, context, token)
            case OffsetCommit():
                offsets.commit(shard, request, context, token)
            case TxnOffsetCommit():
                transactions.commit(shard, request, context, token)
            case WriteTxnMarker():
                transactions.end(shard, request, token)
            case OffsetFetch():
                offsets.fetch(shard, request, context, token)
            case JoinGroup() | SyncGroup() | LeaveGroup():
                self._handle_classic(request, context, token)
            case OffsetDelete():
                offsets.delete(shard, request, token)
            case ListGroups():
                admin.list_groups(shard, request, token)
            case DescribeGroups():
                admin.describe_groups(shard, request, token)
            case DeleteGroups():
                admin.delete_groups(shard, request, token)
            case ConsumerGroupDescribe():
                describe.describe(shard, request, token)

    def _handle_classic(
        self, request: JoinGroup | SyncGroup | Heartbeat | LeaveGroup, context: Context, token: Token
    ) -> None:
        """Handle a request of the classic protocol; its group may be a consumer group."""
        shard = self._shard
        group = shard.consumer_group(request.group_id)
        match request:
            case JoinGroup() if group is not None and group.members:
                classic_members.join(shard, group, request, context, token)
            case JoinGroup():
                if group is not None and not request.member_id:
                    conversion.downgrade_empty(shard, group)
                join.join(shard, request, context, token, in_log=group is not None and not group.creation_pending)
            case SyncGroup() if group is not None:
                classic_members.sync(shard, group, request, context, token)
            case SyncGroup():
                sync.sync(shard, request, context, token)
            case LeaveGroup() if group is not None:
                classic_members.leave(shard, group, request, context, token)
            case LeaveGroup():
                leave.leave(shard, request, context, token)
            case Heartbeat() if group is not None:
                classic_members.heartbeat(shard, group, request, context, token)
            case Heartbeat():
                heartbeat.heartbeat(shard, request, context, token)

    def _fire(self, timer: TimerName) -> None:
        shard = self._shard
        group = GroupId(timer.group)
        match timer.kind:
            case TimerKind.SESSION if group in shard.hard.consumer_groups:
                consumer_departure.end_sessions(shard, group, MemberId(timer.member))
            case TimerKind.SESSION:
                heartbeat.on_session_deadline(shard, group, MemberId(timer.member))
            case TimerKind.REVOCATION | TimerKind.CLASSIC_JOIN:
                consumer_departure.fence(shard, group, MemberId(timer.member), Removal.REBALANCE_TIMEOUT)
            case TimerKind.CLASSIC_SYNC:
                consumer_departure.fence(shard, group, MemberId(timer.member), Removal.SYNC_TIMEOUT)
            case TimerKind.PENDING:
                join.on_pending_deadline(shard, group, MemberId(timer.member))
            case TimerKind.JOIN:
                rebalance.on_join_deadline(shard, group)
            case TimerKind.SYNC:
                rebalance.on_sync_deadline(shard, group)
            case TimerKind.SIMPLE:
                simple.on_simple_deadline(shard, group, timer.member)
            case TimerKind.EXPIRY:
                expiry.on_expiry(shard)
            case TimerKind.STUCK if group in shard.hard.consumer_groups:
                watchdog.on_stuck_consumers(shard, shard.hard.consumer_groups[group])
            case TimerKind.STUCK:
                watchdog.on_stuck(shard, group)

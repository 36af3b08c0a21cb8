"""Rules for groups of KIP-848 after every step of the coordinator, and in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_records import ConsumerKey, MemberMetadata, MemberState
from muster.actors.group.consumer.state import LEFT_FOR_A_WHILE, ConsumerGroup, ConsumerGroupState
from muster.actors.group.events import GroupDeleted, MemberExpired, Removal, StaticMemberReplaced
from muster.actors.group.messages import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    LeaveGroup,
    LeaveGroupResponse,
    OffsetCommit,
    OffsetCommitResponse,
)
from muster.actors.group.types import GroupId, MemberId
from muster.placement.mapping.registration import Kind
from tests.simulation.actor import Received, Step, StepKind
from tests.simulation.consumer_groups.member import Partition, topic_of
from tests.simulation.log import decoded
from tests.simulation.planted.broken import Broken
from tests.simulation.rules import about_memory, about_responses
from tests.simulation.view import View

Key = tuple[str, str]
OF_EVERY_STEP = (
    about_responses.no_request_is_answered_twice,
    about_responses.every_waiting_request_can_end,
    about_responses.no_request_waits_too_long,
    about_responses.what_is_acknowledged_is_durable,
    about_memory.replay_equals_live,
    about_memory.connections_are_those_of_registered_members,
    about_memory.updates_sum_up_to_registrations,
)


class Rules:
    """History of the groups, in this life of the actor and before."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.removed: set[Key] = set()
        """Members that were removed, if only for a moment, by group."""
        self._heard_ms: dict[Key, int] = {}
        self._revoking_ms: dict[Key, int] = {}
        self._released: set[Key] = set()
        """Members whose instance id any process may take: they will return, or have the classic protocol."""
        self._members: dict[Key, MemberMetadata] = {}
        self._epochs: dict[str, tuple[int, int]] = {}
        self._answered: Counter[str] = Counter()
        """The highest member epoch that a response had, by group; of a group that got empty, 0."""
        self._holders: dict[int, dict[Partition, MemberId]] = {}
        """Holders when each waiting OffsetCommit arrived: who held what."""

    def check(self, step: Step) -> None:
        """Check the step. Raises Broken with the name of what does not hold."""
        if step.dying:
            return
        self._note(step)
        for rule in OF_EVERY_STEP:
            _named(rule.__name__, lambda rule=rule: rule(self.view, step))
        self._check_removals(step)
        self._check_replacements(step)
        for group in self.view.core.consumer_groups.values():
            check_holders(group)
            check_counts(group)
            self._check_epochs(step, group)
        self._check_responses(step)
        self._check_commits(step)
        if step.outcome.write is not None or step.kind in (StepKind.FAILED, StepKind.LOADED):
            check_replay(self.view)
        if not self.view.log.pending:
            check_registrations(self.view)
        self._remember(step)

    def _note(self, step: Step) -> None:
        if step.kind is StepKind.LOADED:
            self._holders.clear()
            self._epochs.clear()
            self._revoking_ms.clear()
            self._heard_ms = dict.fromkeys(self._heard_ms, step.now_ms)

    def _remember(self, step: Step) -> None:
        """Remember the step for the checks of later steps."""
        groups = self.view.core.consumer_groups
        self._epochs = {group_id: epochs for group_id, epochs in self._epochs.items() if group_id in groups}
        for group_id in [*self._answered]:
            if group_id not in groups or not groups[GroupId(group_id)].members:
                del self._answered[group_id]
        present: set[Key] = set()
        for group in groups.values():
            for member_id in group.members:
                key = (group.id, member_id)
                present.add(key)
                self._members[key] = group.members[member_id]
                is_classic = group.members[member_id].classic is not None
                if is_classic or group.assignment_of(member_id).epoch == LEFT_FOR_A_WHILE:
                    self._released.add(key)
                else:
                    self._released.discard(key)
                if group.assignment_of(member_id).state is MemberState.UNREVOKED_PARTITIONS:
                    self._revoking_ms.setdefault(key, step.now_ms)
                else:
                    self._revoking_ms.pop(key, None)
                self._heard_ms.setdefault(key, step.now_ms)
        for gone in self._heard_ms.keys() - present:
            self.removed.add(gone)
            del self._heard_ms[gone]
            self._revoking_ms.pop(gone, None)
        received = step.received
        if received is not None and step.kind is StepKind.REQUEST:
            self._hear(step, received)

    def _hear(self, step: Step, received: Received) -> None:
        request = received.request
        group = self.view.core.consumer_groups.get(getattr(request, "group_id", GroupId("")))
        refused = any(
            each is received and getattr(r, "error_code", None) not in (None, ErrorCode.none)
            for each, r in step.answered
        )
        key = (getattr(request, "group_id", ""), getattr(request, "member_id", ""))
        leaves = isinstance(request, ConsumerGroupHeartbeat) and request.member_epoch < 0
        if key in self._heard_ms and not refused and not leaves and not isinstance(request, OffsetCommit):
            self._heard_ms[key] = step.now_ms
            self.removed.discard(key)
        if isinstance(request, OffsetCommit) and group is not None and received.token in self.view.actor.waiting:
            held = {(topic_of(topic), index): owner for (topic, index), owner in group.holders.items()}
            self._holders[received.token] = held

    def _check_removals(self, step: Step) -> None:
        """Check that a removed member was silent for its session, or did not give up partitions in time."""
        for event in step.outcome.events:
            if not isinstance(event, MemberExpired) or (event.group, event.member_id) not in self._heard_ms:
                continue
            key = (event.group, event.member_id)
            classic, rebalance_ms = self._members[key].classic, self._members[key].rebalance_timeout_ms
            session_ms = self.view.actor.config.session_timeout_ms(event.group)
            since_ms, wait_ms = self._heard_ms[key], classic.session_timeout_ms if classic else session_ms
            if event.cause is Removal.REBALANCE_TIMEOUT and not classic:
                since_ms, wait_ms = self._revoking_ms.get(key, step.now_ms), rebalance_ms
            if step.now_ms < since_ms + wait_ms and (event.cause is Removal.SESSION_EXPIRED or not classic):
                raise Broken(f"{event}, since {since_ms}", "no_member_is_fenced_without_a_reason")

    def _check_replacements(self, step: Step) -> None:
        """Check that a static member with the consumer protocol is replaced by another one only if it has left."""
        request = step.received.request if step.received else None
        for event in step.outcome.events:
            if not isinstance(event, StaticMemberReplaced) or not isinstance(request, ConsumerGroupHeartbeat):
                continue
            key = (event.group, event.old_member_id)
            if key in self._heard_ms and key not in self._released:
                raise Broken(f"{event} by {request}", "no_member_is_fenced_without_a_reason")

    def _check_epochs(self, step: Step, group: ConsumerGroup) -> None:
        """Epochs grow while the coordinator lives and can write; no target is newer than its group."""
        before = self._epochs.get(group.id)
        now = (group.epoch, group.target_epoch)
        if not group.members:
            self._epochs.pop(group.id, None)
            return
        if step.kind is not StepKind.FAILED and before is not None and (now[0] < before[0] or now[1] < before[1]):
            raise Broken(f"{group.id}: from {before} to {now}", "epochs_never_go_back")
        late = [each for each in group.members if group.assignment_of(each).epoch > group.target_epoch]
        if group.target_epoch > group.epoch or late:
            raise Broken(f"{group.id}: {now}, {late} are ahead", "epochs_never_go_back")
        self._epochs[group.id] = now

    def _check_responses(self, step: Step) -> None:
        """Who joins gets no epoch that others have passed; who has left is gone.

        A response to a member of a group that is being deleted may be later than the first join of the next one.
        """
        for event in step.outcome.events:
            if isinstance(event, GroupDeleted):
                self._answered.pop(event.group, None)
        for received, response in step.answered:
            request = received.request
            self._check_left(request, response)
            if not isinstance(request, ConsumerGroupHeartbeat) or not isinstance(
                response, ConsumerGroupHeartbeatResponse
            ):
                continue
            group, epoch = request.group_id, response.member_epoch
            if response.error_code is not ErrorCode.none or epoch <= 0:
                continue
            if request.member_epoch == 0 and epoch < self._answered[group]:
                raise Broken(f"{request} gets {epoch}, another had {self._answered[group]}", "epochs_never_go_back")
            self._answered[group] = max(self._answered[group], epoch)

    def _check_left(self, request: object, response: object) -> None:
        left: list[str] = []
        if isinstance(request, LeaveGroup) and isinstance(response, LeaveGroupResponse):
            results = zip(request.members, response.members, strict=False)  # none with an error of the whole request
            left = [leaving.member_id for leaving, result in results if result.error_code is ErrorCode.none]
        elif isinstance(request, ConsumerGroupHeartbeat) and isinstance(response, ConsumerGroupHeartbeatResponse):
            left = [request.member_id] if request.member_epoch == -1 and response.error_code is ErrorCode.none else []
        else:
            return
        group = self.view.core.consumer_groups.get(request.group_id)
        if group is not None and not group.members.keys().isdisjoint(left):
            raise Broken(f"{left} of {request} are members of {group.id}", "who_has_left_is_no_member")

    def _check_commits(self, step: Step) -> None:
        """Check that an offset is taken from a member only if no other one held the partition."""
        for received, response in step.answered:
            held = self._holders.pop(received.token, None)
            request = received.request
            if held is None or not isinstance(request, OffsetCommit) or not isinstance(response, OffsetCommitResponse):
                continue
            for topic in response.topics:
                for partition in topic.partitions:
                    owner = held.get((topic.name, partition.partition_index), request.member_id)
                    if partition.error_code is ErrorCode.none and owner != request.member_id:
                        raise Broken(f"{request} while {owner} had it", "only_the_holder_commits")


def check_holders(group: ConsumerGroup) -> None:
    """No partition is held by two members, and holders are members."""
    held = [(one, each) for each, mine in group.current.items() for one in (*mine.assigned, *mine.revoking)]
    if len({one for one, _ in held}) != len(held) or dict(held) != group.holders:
        raise Broken(f"{group.id}: {held}, {group.holders}", "no_partition_has_two_holders")
    if not group.current.keys() | group.targets.keys() <= group.members.keys():
        raise Broken(f"{group.id}: {[*group.current]}, {[*group.members]}", "no_partition_has_two_holders")


def check_counts(group: ConsumerGroup) -> None:
    """Check counts that are kept as members change against a look at all members."""
    members = group.members
    reconciled = group.epoch == group.target_epoch and all(map(group.is_reconciled, members))
    classic = {member.classic is not None for member in members.values()}
    for found, expected in (
        (group.subscribed_topics(), frozenset[str]().union(*map(group.topics_of, members))),
        ({*group.wanted_regexes()}, {member.regex for member in members.values() if member.regex}),
        (group.state() is ConsumerGroupState.STABLE, bool(members) and reconciled),
        (group.is_classic_without(()), classic == {True}),
        (group.static_members, {each.instance_id: name for name, each in members.items() if each.instance_id}),
    ):
        if found != expected:
            raise Broken(f"{group.id} has {found}, its members {expected}", "counters_agree_with_members")


def check_replay(view: View) -> None:
    """Check that the groups in memory equal what the log's last values give: a successor knows only the log."""
    groups: dict[GroupId, ConsumerGroup] = {}
    for key_bytes, value_bytes in view.log.live.last.items():
        key, value = decoded(key_bytes, value_bytes)
        if isinstance(key, ConsumerKey):
            groups.setdefault(key.group, ConsumerGroup(key.group)).put(key, value)
    if groups != dict(view.core.consumer_groups):
        raise Broken(f"memory has {view.core.consumer_groups.keys()}, the log {groups.keys()}", "replay_equals_live")
    both = groups.keys() & view.core.groups.keys()
    if both:
        raise Broken(f"{both} have both types", "replay_equals_live")


def check_registrations(view: View) -> None:
    """Attribution relies on them: every member, with what it has or still has to give up."""
    for group in view.core.consumer_groups.values():
        registered = {
            member_id: registration
            for (group_id, member_id), registration in view.promises.registrations.items()
            if group_id == group.id and registration.kind is Kind.MEMBER
        }
        for member_id in group.members.keys() | registered.keys():
            mine = group.assignment_of(MemberId(member_id))
            held = {(topic_of(topic), index) for topic, index in (*mine.assigned, *mine.revoking)}
            known = registered.get(member_id)
            if member_id not in group.members or held != (known.partitions if known else set()):
                raise Broken(f"{group.id}, {member_id} has {held}: {known}", "registrations_agree_with_members")


def unwell(
    group: ConsumerGroup,
    held: dict[str, frozenset[Partition]],
    wanted: dict[str, frozenset[str]],
    counts: dict[str, int],
) -> Iterator[str]:
    """Why the group has not got to its end: ``held`` by member id, as ``wanted``; ``counts`` of the topics."""
    if group.state().value != "Stable" or group.members.keys() != held.keys():
        yield f"{group.id} is {group.state()} with {[*group.members]}, alive are {[*held]}"
        return
    for member_id, mine in held.items():
        target = {(topic_of(topic), index) for topic, index in group.target_of(MemberId(member_id))}
        target = {one for one in target if one[0] in wanted[member_id]}  # a former process may have wanted more
        if mine != target or not {topic for topic, _ in mine} <= wanted[member_id]:
            yield f"{member_id} has {sorted(mine)}, its target is {sorted(target)}"
    every = {(topic, index) for topics in wanted.values() for topic in topics for index in range(counts.get(topic, 0))}
    given = [one for mine in held.values() for one in mine]
    if sorted(given) != sorted(every):
        yield f"{group.id} has {sorted(given)}, should have {sorted(every)}"


def _named(name: str, check: object) -> None:
    try:
        check()  # type: ignore[operator]
    except Broken as broken:
        broken.invariant = broken.invariant or name
        raise

"""The coordinator's promises: to members, about their sessions, their assignments and their registrations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from muster.actors.group.messages import Heartbeat, JoinGroup, JoinGroupResponse, OffsetCommit, SyncGroup
from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId, MemberId
from muster.placement.mapping.registration import Registration, Trace, Withdrawal
from tests.simulation.actor import Step, StepKind
from tests.simulation.known_offsets import KnownOffsets
from tests.simulation.log import SimulatedLog
from tests.simulation.shots import GroupShot

E = ErrorCode
Incarnation = tuple[GroupId, int]
"""A group, and how many groups of that name were deleted before it."""


@dataclass(slots=True)
class Assignments:
    """The assignments returned to members of one generation."""

    shares: dict[str, bytes] = field(default_factory=dict)
    """By instance id, or by member id without one."""
    owners: dict[tuple[str, int], str] = field(default_factory=dict)


@dataclass(slots=True)
class Watch:
    """When the phases of one group began, in this life of the actor."""

    prepared_ms: int = 0
    completed_ms: int = 0
    synced: set[MemberId] = field(default_factory=set)
    """Members that have sent a valid SyncGroup in this generation."""
    alive_until_ms: dict[MemberId, int] = field(default_factory=dict)
    """The earliest time at which the member's session may end."""
    added_ms: dict[MemberId, int] = field(default_factory=dict)


@dataclass(slots=True)
class Rumours:
    member_ids: list[str] = field(default_factory=list)
    instance_ids: list[str] = field(default_factory=list)
    generation: int = 0


class Promises:
    def __init__(self) -> None:
        self.offsets = KnownOffsets()
        self.assignments: dict[tuple[Incarnation, int], Assignments] = {}
        self.dishonest: set[tuple[Incarnation, int]] = set()
        """Generations whose leader's assignment was not sent by an honest consumer."""
        self.longest_rebalance_ms: Counter[GroupId] = Counter()
        self.watches: defaultdict[GroupId, Watch] = defaultdict(Watch)
        self.registrations: dict[tuple[str, str], Registration] = {}
        self.rumours: defaultdict[str, Rumours] = defaultdict(Rumours)

    def before_checks(self, step: Step, log: SimulatedLog, snapshot: Callable[[], Iterable[Registration]]) -> None:
        """Record what the step shows, for the checks of this step.

        ``snapshot`` returns all registrations: gateways receive them this way from a coordinator that has just loaded.
        """
        self.offsets.note(step, log)
        request = step.received.request if step.received else None
        if isinstance(request, JoinGroup):
            longest = max(self.longest_rebalance_ms[request.group_id], request.rebalance_timeout_ms)
            self.longest_rebalance_ms[request.group_id] = longest
        if step.kind is StepKind.LOADED:
            self.registrations = {(r.group, r.member_id): r for r in snapshot()}
            self.watches.clear()
        for update in step.outcome.updates:
            place = (update.group, update.member_id)
            if isinstance(update, Withdrawal):
                self.registrations.pop(place, None)
            elif not isinstance(update, Trace):
                self.registrations[place] = update

    def after_checks(self, step: Step) -> None:
        """Record what the step promises, for later steps."""
        self._watch_request(step)
        for group_id, after in step.after.items():
            self._watch_group(step, group_id, step.before.get(group_id), after)
        for group_id in step.before.keys() - step.after.keys():
            self.watches.pop(group_id, None)
        for received, response in step.answered:
            if isinstance(received.request, SyncGroup) and step.kind is not StepKind.REQUEST:
                self._extend(step, received.request.group_id, received.request.member_id)
            elif isinstance(response, JoinGroupResponse) and isinstance(received.request, JoinGroup):
                self._gossip(received.request, response)

    def _watch_request(self, step: Step) -> None:
        received = step.received
        if received is None or step.loading:
            return
        request = received.request
        if (isinstance(request, Heartbeat) and received.expected in (E.none, E.rebalance_in_progress)) or (
            isinstance(request, OffsetCommit) and request.generation_id >= 0 and received.expected is E.none
        ):
            self._extend(step, request.group_id, request.member_id)
        elif isinstance(request, SyncGroup) and received.expected in (E.none, None):
            self.watches[request.group_id].synced.add(request.member_id)

    def _watch_group(self, step: Step, group_id: GroupId, before: GroupShot | None, after: GroupShot) -> None:
        watch = self.watches[group_id]
        turned = before is None or before.generation != after.generation
        if step.kind is StepKind.LOADED:
            watch.prepared_ms = watch.completed_ms = step.now_ms
            for member_id in after.members:
                self._extend(step, group_id, member_id)
        elif after.state is GroupState.PREPARING_REBALANCE and (
            turned or before is None or before.state is not GroupState.PREPARING_REBALANCE
        ):
            watch.prepared_ms = step.now_ms
        elif turned and after.state is GroupState.COMPLETING_REBALANCE:
            watch.completed_ms = step.now_ms
            watch.synced.clear()
            for member_id in after.members:
                self._extend(step, group_id, member_id)
        known = before.members if before else {}
        for member_id, member in after.members.items():
            if member_id in known:
                continue
            watch.added_ms[member_id] = step.now_ms
            old_id = before.static_members.get(member.group_instance_id or "") if before else None
            if old_id in known and old_id is not None and not turned:
                watch.alive_until_ms[member_id] = step.now_ms + known[old_id].session_timeout_ms

    def _extend(self, step: Step, group_id: GroupId, member_id: MemberId) -> None:
        """Restart the member's session."""
        group = step.after.get(group_id)
        if group is not None and (member := group.members.get(member_id)) is not None:
            self.watches[group_id].alive_until_ms[member_id] = step.now_ms + member.session_timeout_ms

    def _gossip(self, request: JoinGroup, response: JoinGroupResponse) -> None:
        rumours = self.rumours[request.group_id]
        if response.member_id and response.member_id not in rumours.member_ids[-20:]:
            rumours.member_ids.append(response.member_id)
        if request.group_instance_id and request.group_instance_id not in rumours.instance_ids[-5:]:
            rumours.instance_ids.append(request.group_instance_id)
        rumours.generation = max(response.generation_id, 0)

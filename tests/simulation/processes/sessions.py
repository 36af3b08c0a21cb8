"""Rules of leases: what gateways answer themselves is true, and sessions end neither early nor late."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.actors.group.events import MemberExpired, Removal
from muster.actors.group.state import GroupState
from muster.placement.lease import LEASE_MS, REPORT_MS
from tests.simulation.planted.broken import Broken
from tests.simulation.processes.process import Machine, Process

if TYPE_CHECKING:
    from muster.actors.offsets.partition import OffsetsPartition
    from tests.simulation.processes.copies import Copy
    from tests.simulation.processes.pipes import Pipe

_LAST_MOMENT_MS = 200
_WAITED_MS = LEASE_MS - 100
"""Reports that are held up for so long are waited for."""
_LATENCY_MS = 10
"""More than a message takes between two processes that both run."""

MemberKey = tuple[str, str]
"""Group and member id."""


class Place(NamedTuple):
    """A member of a Stable group in its generation."""

    group: str
    member: str
    generation: int


class _Response(NamedTuple):
    at_ms: int
    gateway: Process
    pipe: Pipe


@dataclass(slots=True)
class _Epoch:
    """Knowledge of the groups of one copy in one epoch."""

    since_ms: int
    valid: set[Place] = field(default_factory=set)
    ended_ms: dict[Place, int] = field(default_factory=dict)
    signs_ms: dict[MemberKey, int] = field(default_factory=dict)
    """When each member last gave a sign of life."""
    session_ms: dict[MemberKey, int] = field(default_factory=dict)
    responses: dict[MemberKey, _Response] = field(default_factory=dict)
    """The last heartbeat of each member that a gateway answered itself."""
    pipes: list[Pipe] = field(default_factory=list)
    gateways: list[Process] = field(default_factory=list)
    generations: dict[str, int] = field(default_factory=dict)


class Sessions:
    """Looks at all copies after every event, and at what gateways answer."""

    def __init__(self, machine: Machine, counts: Counter[str]) -> None:
        self.peers = itertools.count(1)
        """Numbers of connections."""
        self.answered: Callable[[Process, bool], None] = lambda gateway, at_the_last_moment: None
        """Called when a gateway has answered a heartbeat; whether its session was about to end."""
        self._machine = machine
        self._counts = counts
        self._epochs: defaultdict[tuple[str, int], _Epoch] = defaultdict(lambda: _Epoch(self._now_ms))

    @property
    def _now_ms(self) -> int:
        return self._machine.schedule.now_ms

    def _broken(self, invariant: str, detail: str) -> None:
        self._machine.found(Broken(detail, invariant))

    # What happens.

    def serves(self, copy: Copy, epoch: int) -> None:
        """Note that the copy has loaded the groups; sessions begin anew."""
        self._epochs[copy.name, epoch] = _Epoch(self._now_ms)

    def connected(self, gateway: Process, copy: Copy, epoch: int, pipe: Pipe) -> None:
        """Note that a gateway has a connection to the copy."""
        self._epochs[copy.name, epoch].pipes.append(pipe)
        self._epochs[copy.name, epoch].gateways.append(gateway)

    def sign(self, copy: Copy, epoch: int, entity: Any) -> None:
        """Note a request that has reached the copy."""
        member = str(getattr(entity, "member_id", None) or "")
        self._epochs[copy.name, epoch].signs_ms[str(getattr(entity, "group_id", "")), member] = self._now_ms

    def leased(self, gateway: Process, copy: Copy, epoch: int, pipe: Pipe, entity: Any) -> None:
        """Check a heartbeat that a gateway answers with NONE. It must be true, or have been until a moment ago."""
        self._counts["leased"] += 1
        known, now_ms = self._epochs[copy.name, epoch], self._now_ms
        place = Place(str(entity.group_id), str(entity.member_id), int(entity.generation_id))
        is_disturbed = max(gateway.disturbed_until_ms, copy.disturbed_until_ms, pipe.disturbed_until_ms)
        limit_ms = LEASE_MS if is_disturbed + LEASE_MS > now_ms else _LATENCY_MS
        if place not in known.valid and now_ms - known.ended_ms.get(place, -1) > limit_ms:
            ended_ms = known.ended_ms.get(place)
            detail = f"{gateway.name} answers {place} at {now_ms}; in epoch {epoch} this was true until {ended_ms}"
            self._broken("a_leased_answer_is_true", detail)
        key = place.group, place.member
        silent_ms = now_ms - max(known.signs_ms.get(key, 0), known.since_ms)
        known.signs_ms[key] = now_ms
        known.responses[key] = _Response(now_ms, gateway, pipe)
        self.answered(gateway, silent_ms + _LAST_MOMENT_MS > known.session_ms.get(key, 0))

    def event(self, copy: Copy, epoch: int, event: object) -> None:
        """Note an event of a coordinator."""
        if not isinstance(event, MemberExpired) or event.cause is not Removal.SESSION_EXPIRED:
            return
        self._counts["members expired"] += 1
        known, now_ms = self._epochs[copy.name, epoch], self._now_ms
        key = str(event.group), str(event.member_id)
        response = known.responses.get(key)
        if response is None or response.at_ms + known.session_ms.get(key, 0) <= now_ms + 2:
            return
        processes: tuple[Process | Pipe, ...] = (response.gateway, copy, response.pipe)
        if all(each.disturbed_until_ms < response.at_ms + _WAITED_MS for each in processes):
            self._broken("no_member_expires_early", f"{key} expires, {response.gateway.name} has just answered it")

    # What is.

    def look(self, copies: Iterable[Copy]) -> None:
        """After every event of the world."""
        for copy in copies:
            last = copy.last
            for (name, epoch), known in self._epochs.items():
                if name == copy.name and known.valid and (last is None or epoch < last[0]):
                    self._end(known, set())
            if last is not None and not copy.is_stopped:
                self._look_at(copy, *last)

    def _look_at(self, copy: Copy, epoch: int, partition: OffsetsPartition) -> None:
        """Look at the groups of the last epoch. When it has resigned, they are Dead, and have no sessions any more."""
        known = self._epochs[copy.name, epoch]
        valid = set()
        disturbed_ms = max([copy.disturbed_until_ms, *(pipe.disturbed_until_ms for pipe in known.pipes)])
        for group in partition.coordinator.groups.values():
            if group.state is GroupState.DEAD:
                continue
            # All sessions begin anew at the end of a join phase, also those of static members that have not joined.
            is_new = known.generations.get(str(group.id)) != group.generation
            known.generations[str(group.id)] = group.generation
            for member in group.members.values():
                key = str(group.id), str(member.id)
                known.session_ms[key] = member.session_timeout_ms
                if group.state is GroupState.STABLE:
                    valid.add(Place(*key, group.generation))
                if is_new or member.is_new or member.parked_join or member.parked_sync is not None:
                    known.signs_ms[key] = self._now_ms
                    continue
                last_ms = max(known.signs_ms.get(key, 0), known.since_ms, disturbed_ms)
                ends_ms = last_ms + member.session_timeout_ms
                is_disturbed = max(disturbed_ms, *(each.disturbed_until_ms for each in known.gateways), 0) >= ends_ms
                if self._now_ms > ends_ms + REPORT_MS + _LATENCY_MS + (LEASE_MS if is_disturbed else 0):
                    detail = f"{copy.name} in epoch {epoch}: {key}, {group.state}, was last heard of at {last_ms}"
                    self._broken("no_member_stays_without_a_sign", detail)
        self._end(known, valid)

    def _end(self, known: _Epoch, valid: set[Place]) -> None:
        for place in known.valid - valid:
            known.ended_ms[place] = self._now_ms
        known.valid = valid

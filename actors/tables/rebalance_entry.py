"""One entry of the rebalance journal: the facts about one rebalance of a group, to JSON and back.

Times are in ms since the Unix epoch, durations in ms. Lists are bounded: the longest come first, the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from muster.actors.group.events import Cause, PendingEnd, Removal
from muster.actors.group.types import MemberId, Who

MAX_PENDING = 10
MAX_PARTITIONS = 100


class Ending(StrEnum):
    """How a rebalance ended."""

    STABLE = "stable"
    """The assignment was stored."""
    EMPTY = "empty"
    """No member was left."""
    RESTARTED = "restarted"
    """Another rebalance began before the assignment was stored."""
    ABORTED = "aborted"
    """The coordinator resigned, or the new group could not be written."""
    RUNNING = "running"
    """Entry of a rebalance that has not ended, with its current state."""


class RebalanceProtocol(StrEnum):
    """KIP-429's terms, as the members' subscriptions show them."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"


class Wait(NamedTuple):
    """How long a phase waited for a member."""

    who: Who
    after_ms: int | None
    """When its JoinGroup (SyncGroup) arrived, since the phase began; None: never."""
    held_ms: int
    """Until then, until it was no longer a member, or until the entry ended."""


@dataclass(frozen=True, slots=True)
class Waits:
    members: tuple[Wait, ...] = ()
    """Longest first; the first is the slowest."""
    left_out: int = 0

    @property
    def slowest(self) -> Wait | None:
        return self.members[0] if self.members else None


@dataclass(frozen=True, slots=True)
class PendingWait:
    """A pending member id that the join phase waited for."""

    who: Who
    held_ms: int
    end: PendingEnd | None
    """None: it was still awaited when the phase ended."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A former member."""

    who: Who
    cause: Removal | None
    """Why it was expelled; None: it left."""
    reason: str | None
    """The reason that a member gave when it left (LeaveGroup v5)."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A partition that was not consumed for ``ms``."""

    topic: str
    partition: int
    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSummary:
    """Partitions that no member consumed; ``muster.actors.offsets.history.consumption_pauses`` has the rule."""

    assigned: int
    """Partitions that were assigned, or waited for a new owner, when the rebalance began."""
    count: int
    lost_ms: int
    """Sum over all paused partitions."""
    partitions: tuple[Pause, ...] = ()
    """Longest first."""
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceEntry:
    """A rebalance, identified by (``offsets_partition``, ``epoch``, ``number``)."""

    group: str
    offsets_partition: int
    epoch: int
    """Leader epoch of the coordinator."""
    number: int
    """Counts the entries of that coordinator from 1, in the order in which the rebalances began."""
    from_state: str
    previous_generation: int
    generation: int | None
    """The generation that it led to; None: its join phase was not completed."""
    began_ms: int
    joined_ms: int | None
    """When the join phase was completed."""
    stable_ms: int | None
    """When the assignment was stored and handed out."""
    ended_ms: int
    """When every member had its assignment, or the next rebalance began, or the group was Empty."""
    ending: Ending
    cause: Cause
    triggered_by: Who | None
    """The member that caused it; None if no single member did."""
    reason: str | None
    """The reason that this member gave (KIP-800)."""
    protocol_type: str | None
    protocol: str | None
    rebalance_protocol: RebalanceProtocol | None
    """None for another protocol type than ``consumer``, and before the join phase was completed."""
    leader: MemberId | None
    members_before: int
    members_after: int | None
    """Members of the generation; None: there was none."""
    join_waits: Waits
    """For those that were members when the rebalance began, including those that no longer are."""
    sync_waits: Waits
    """For every member of the generation, since ``joined_ms``. The group waits only for its leader."""
    pending: tuple[PendingWait, ...]
    """Pending members that delayed the join phase, longest first, at most MAX_PENDING."""
    added: tuple[Who, ...]
    added_left_out: int
    gone: tuple[Gone, ...]
    gone_left_out: int
    consumption_pauses: PauseSummary | None
    """None for another protocol type than ``consumer``: what it assigns is not known."""

    @property
    def key(self) -> tuple[int, int, int]:
        return self.offsets_partition, self.epoch, self.number

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        paused = self.consumption_pauses
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "ending": self.ending.value,
            "cause": self.cause.value,
            "culprit": _who(self.triggered_by) if self.triggered_by else None,
            "rebalance_protocol": self.rebalance_protocol.value if self.rebalance_protocol else None,
            "join_waits": [_wait(wait) for wait in self.join_waits.members],
            "join_waits_left_out": self.join_waits.left_out,
            "sync_waits": [_wait(wait) for wait in self.sync_waits.members],
            "sync_waits_left_out": self.sync_waits.left_out,
            "pending": [
                {**_who(each.who), "held_ms": each.held_ms, "end": each.end.value if each.end else None}
                for each in self.pending
            ],
            "added": [_who(who) for who in self.added],
            "gone": [
                {**_who(each.who), "cause": each.cause.value if each.cause else None, "reason": each.reason}
                for each in self.gone
            ],
            "partitions_assigned": paused.assigned if paused else None,
            "partitions_still": paused.count if paused else None,
            "lost_partition_ms": paused.lost_ms if paused else None,
            "partitions": [
                {"topic": each.topic, "partition": each.partition, "ms": each.ms}
                for each in (paused.partitions if paused else ())
            ],
            "partitions_left_out": paused.left_out if paused else 0,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RebalanceEntry:
        """Return the entry that ``to_json`` returned. Raises KeyError, TypeError or ValueError for anything else."""
        triggered_by, protocol = values["culprit"], values["rebalance_protocol"]
        return cls(
            **{name: values[name] for name in _PLAIN},
            ending=Ending(values["ending"]),
            cause=Cause(values["cause"]),
            triggered_by=_to_who(triggered_by) if triggered_by else None,
            rebalance_protocol=RebalanceProtocol(protocol) if protocol else None,
            join_waits=_to_waits(values["join_waits"], values["join_waits_left_out"]),
            sync_waits=_to_waits(values["sync_waits"], values["sync_waits_left_out"]),
            pending=tuple(
                PendingWait(_to_who(each), each["held_ms"], PendingEnd(each["end"]) if each["end"] else None)
                for each in values["pending"]
            ),
            added=tuple(_to_who(each) for each in values["added"]),
            gone=tuple(
                Gone(_to_who(each), Removal(each["cause"]) if each["cause"] else None, each["reason"])
                for each in values["gone"]
            ),
            consumption_pauses=_to_pause_summary(values),
        )


_PLAIN = (
    "group",
    "offsets_partition",
    "epoch",
    "number",
    "from_state",
    "previous_generation",
    "generation",
    "began_ms",
    "joined_ms",
    "stable_ms",
    "ended_ms",
    "reason",
    "protocol_type",
    "protocol",
    "leader",
    "members_before",
    "members_after",
    "added_left_out",
    "gone_left_out",
)


def _who(who: Who) -> dict[str, Any]:
    return who._asdict()


def _wait(wait: Wait) -> dict[str, Any]:
    member_id, client_id, host, group_instance_id = wait.who
    return {
        "member_id": member_id,
        "client_id": client_id,
        "host": host,
        "group_instance_id": group_instance_id,
        "after_ms": wait.after_ms,
        "held_ms": wait.held_ms,
    }


def _to_who(values: dict[str, Any]) -> Who:
    return Who(values["member_id"], values["client_id"], values["host"], values["group_instance_id"])


def _to_waits(values: Iterable[dict[str, Any]], left_out: int) -> Waits:
    return Waits(tuple(Wait(_to_who(each), each["after_ms"], each["held_ms"]) for each in values), left_out)


def _to_pause_summary(values: dict[str, Any]) -> PauseSummary | None:
    if values["partitions_still"] is None:
        return None
    return PauseSummary(
        assigned=values["partitions_assigned"],
        count=values["partitions_still"],
        lost_ms=values["lost_partition_ms"],
        partitions=tuple(Pause(each["topic"], each["partition"], each["ms"]) for each in values["partitions"]),
        left_out=values["partitions_left_out"],
    )

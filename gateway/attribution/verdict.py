"""The labels that attribution assigns; the same in metrics, samples and reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Evidence(StrEnum):
    """How the group is known, strongest first. :mod:`muster.gateway.attribution.evidence_rules` explains each."""

    SAME_CONNECTION = "same_connection"
    UNIQUE_CANDIDATE = "unique_candidate"
    ASSIGNMENT = "assignment"
    BINDING = "binding"
    SESSION = "session"
    OFFSET_CONTINUITY = "offset_continuity"
    ONE_TO_ONE = "one_to_one"
    DERIVED = "derived"
    NONE = "none"
    """There is no group; the reason says why."""


class Reason(StrEnum):
    """Why bytes have no group."""

    NO_GROUP = "no_group"
    """No group is known to have a client with this host and client id."""
    AMBIGUOUS = "ambiguous"
    """More than one group may have fetched them."""
    UNKNOWN = "unknown"
    """There are groups with such a client, and none of them is known to own the partition."""
    NOT_MEMBER = "not_member"
    """A group has such a client that owns the partition and fetches it beside this connection, which is another one."""
    EXPIRED = "expired"
    """Settled early because too much was pending."""
    INTERNAL = "internal"
    """Muster's own readers: what they fetch is no consumer's."""
    PENDING = "pending"
    """Not decided yet; evidence may still come."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Either a group and the evidence for it, or no group and the reason."""

    group: str | None
    member_id: str | None
    """None if the group is certain and the member is not."""
    evidence: Evidence
    reason: Reason | None

    @property
    def is_final(self) -> bool:
        """Whether later evidence cannot change it."""
        return self.group is not None or self.reason is Reason.INTERNAL

    @classmethod
    def of(cls, group: str, member_id: str | None, evidence: Evidence) -> Verdict:
        """Return the verdict that the bytes are the group's."""
        return cls(group, member_id, evidence, None)

    @classmethod
    def none(cls, reason: Reason) -> Verdict:
        """Return the verdict that the bytes belong to no group that is known."""
        return cls(None, None, Evidence.NONE, reason)

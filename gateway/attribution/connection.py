"""What one client connection has shown about the group behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.attribution.verdict import Evidence, Verdict

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection without authentication, as in Kafka."""
_CERTAIN = (Evidence.SAME_CONNECTION, Evidence.UNIQUE_CANDIDATE, Evidence.ASSIGNMENT)


@dataclass(frozen=True, slots=True)
class Binding:
    """This connection fetches this partition for this group, as was once certain."""

    group: str
    member_id: str | None
    since_ms: int
    """When it was first certain, without a contradiction since."""


class ConnectionState:
    """One per client connection, from accept to close; nothing of it outlives the connection."""

    __slots__ = ("_bindings", "_client_ids", "_groups", "principal", "settled")

    def __init__(self, principal: str = ANONYMOUS) -> None:
        self.principal = principal
        """Who sends on it. Not to be changed after the first request of a consumer."""
        self._groups: set[tuple[str | None, str]] = set()
        self._client_ids: set[str | None] = set()
        self._bindings: dict[tuple[str | None, str, int], Binding] = {}
        self.settled: dict[tuple[str, str | None, str, int], Any] = {}
        """The account's verdicts for this connection, while they are current."""

    def saw_group(self, client_id: str | None, group: str) -> bool:
        """A request of a client of ``group`` came in here; True if that is news.

        Only JoinGroup, SyncGroup, Heartbeat, OffsetCommit and OffsetFetch count. FindCoordinator and the admin
        requests are sent for groups that the connection does not consume for (spec F11).
        """
        self.saw_client(client_id)
        if (client_id, group) in self._groups or len(self._groups) > 1:
            return False
        self._groups.add((client_id, group))
        self.settled.clear()
        return True

    def saw_client(self, client_id: str | None) -> None:
        """A request with that client id came in here."""
        if client_id not in self._client_ids and len(self._client_ids) < 2:
            self._client_ids.add(client_id)
            self.settled.clear()

    def group_of(self, client_id: str | None) -> str | None:
        """The group that this connection was seen to work for.

        None when there was no group request, or when several groups or client ids share the connection (a proxy or
        bridge, spec F15): it is then no evidence for any of them.
        """
        if len(self._groups) != 1 or self._client_ids != {client_id}:
            return None
        [(_, group)] = self._groups
        return group

    def binding_of(self, client_id: str | None, topic: str, partition: int) -> Binding | None:
        """What was certain for that partition before, if nothing contradicted it."""
        return self._bindings.get((client_id, topic, partition))

    def remember(self, client_id: str | None, topic: str, partition: int, verdict: Verdict, now_ms: int) -> None:
        """Bind the partition after a certain verdict; forget its binding after one that names no group."""
        key = (client_id, topic, partition)
        if verdict.group is None:
            self._bindings.pop(key, None)
        elif verdict.evidence in _CERTAIN:
            old = self._bindings.get(key)
            since_ms = old.since_ms if old is not None and old.group == verdict.group else now_ms
            self._bindings[key] = Binding(verdict.group, verdict.member_id, since_ms)

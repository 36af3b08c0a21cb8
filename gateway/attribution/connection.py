"""What one client connection has shown about the group behind it."""

from __future__ import annotations

from gateway.attribution.fetches import Fetches
from gateway.attribution.verdict import Evidence

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection without authentication, as in Kafka."""


class ConnectionState:
    """One per client connection; it outlives the connection only in what waits for evidence."""

    __slots__ = ("_client_ids", "_groups", "fetches", "is_open", "opened_ms", "principal")

    def __init__(self, principal: str = ANONYMOUS, *, opened_ms: int = 0) -> None:
        """``opened_ms``: by the gateway's clock; 0 if it is not known."""
        self.opened_ms = opened_ms
        self.principal = principal
        """Who sends on it. Not to be changed after the first request of a consumer."""
        self._groups: set[tuple[str | None, str]] = set()
        self._client_ids: set[str | None] = set()
        self.fetches: dict[str | None, Fetches] = {}
        """What it fetches, by client id."""
        self.is_open = True

    def saw_group(self, client_id: str | None, group: str) -> bool:
        """A request of a client of ``group`` came in here; True if that is news.

        Only JoinGroup, SyncGroup, Heartbeat, OffsetCommit and OffsetFetch count. FindCoordinator and the admin
        requests are sent for groups that the connection does not consume for (F11).
        """
        self.saw_client(client_id)
        if (client_id, group) in self._groups or len(self._groups) > 1:
            return False
        self._groups.add((client_id, group))
        self._unlearn()
        return True

    def saw_client(self, client_id: str | None) -> None:
        """A request with that client id came in here."""
        if client_id not in self._client_ids and len(self._client_ids) < 2:
            self._client_ids.add(client_id)
            self._unlearn()

    def group_of(self, client_id: str | None) -> str | None:
        """The group that this connection was seen to work for.

        None when there was no group request, or when several groups or client ids share the connection (a proxy or
        bridge, F15): it is then no evidence for any of them.
        """
        if len(self._groups) != 1 or self._client_ids != {client_id}:
            return None
        [(_, group)] = self._groups
        return group

    def _unlearn(self) -> None:
        for fetches in self.fetches.values():
            fetches.streams.clear()
            if fetches.identity is not None and fetches.identity.evidence is Evidence.SAME_CONNECTION:
                fetches.identity = None

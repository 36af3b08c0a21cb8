"""The fetch sessions of one gateway, and which of them gives way to a new one (KIP-227, Kafka's FetchSessionCache)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.fetch_sessions.contexts import FetchContext, FullFetchContext, IncrementalFetchContext
from muster.gateway.fetch_sessions.partition import CachedPartition, Key
from muster.gateway.fetch_sessions.session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    FetchSession,
    next_epoch,
)


class SessionRequest(NamedTuple):
    """Session of a Fetch request."""

    session_id: int
    epoch: int
    partitions: Collection[CachedPartition]
    """All partitions, or what is new in a session; each once."""
    forgotten: Collection[Key]
    uses_topic_ids: bool


class SessionError(Exception):
    """The Fetch cannot be served: the client begins a new session."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchSessions:
    """At most ``slots`` sessions. Times are ms and never go back."""

    def __init__(self, *, slots: int, eviction_ms: int, new_id: Callable[[], int]) -> None:
        """``new_id`` draws a positive id, which may be in use."""
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        """The one that was used longest ago is first."""
        self._old: list[tuple[int, int]] = []
        """(size, id) of the sessions that had lived for ``eviction_ms`` when they were last used, sorted."""
        self.partitions = 0
        """Partitions of all sessions, as of when each was last used."""
        self.evictions = 0
        """Sessions that had to give way, since the start."""

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """Return the session with that id, if there is one."""
        return self._sessions.get(session_id)

    def open(self, request: SessionRequest, now_ms: int) -> FetchContext:
        """Return the context of the request: the partitions to fetch, and the way to respond. Raises SessionError."""
        if request.epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != INVALID_SESSION_ID:
                self._remove(request.session_id)
            if request.epoch == FINAL_EPOCH:
                return FetchContext(request.partitions)
            create = partial(self._create, now_ms=now_ms, uses_topic_ids=request.uses_topic_ids)
            return FullFetchContext(request.partitions, create)
        session = self._continued(request)
        session.update(request.partitions, request.forgotten)
        if not session.partitions:
            self._remove(session.id)
            return FetchContext(request.partitions)
        self._touch(session, now_ms)
        session.epoch = next_epoch(session.epoch)
        return IncrementalFetchContext(session)

    def _continued(self, request: SessionRequest) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise SessionError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != request.epoch:
            raise SessionError(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != request.uses_topic_ids:
            raise SessionError(ErrorCode.fetch_session_topic_id_error)
        return session

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        session.last_used_ms = now_ms
        del self._sessions[session.id]
        self._sessions[session.id] = session
        size, is_old = len(session.partitions), now_ms - session.created_ms > self._eviction_ms
        if size != session.cached_size or is_old != session.is_old:
            self._forget_size(session)
            self.partitions += size
            session.cached_size, session.is_old = size, is_old
            if is_old:
                insort(self._old, (size, session.id))

    def _forget_size(self, session: FetchSession) -> None:
        self.partitions -= session.cached_size
        if session.is_old:
            del self._old[bisect_left(self._old, (session.cached_size, session.id))]

    def _create(self, partitions: Collection[CachedPartition], *, now_ms: int, uses_topic_ids: bool) -> int:
        if len(self._sessions) >= self._slots and not self._evict(len(partitions), now_ms):
            return INVALID_SESSION_ID
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        self._sessions[session_id] = FetchSession(session_id, partitions, now_ms, uses_topic_ids=uses_topic_ids)
        self.partitions += len(partitions)
        return session_id

    def _evict(self, size: int, now_ms: int) -> bool:
        """Remove a session for one of ``size`` partitions, if any may be removed for it.

        That is one that has not been used for ``eviction_ms``; or else the smallest of those that have lived so long,
        if it is smaller. All consumers are alike: only Kafka's own followers are privileged.
        """
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        victim_id = stalest.id
        if now_ms - stalest.last_used_ms <= self._eviction_ms:
            if not self._old or self._old[0][0] >= size:
                return False
            victim_id = self._old[0][1]
        self._remove(victim_id)
        self.evictions += 1
        return True

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._forget_size(session)

"""Contexts of Fetches in their sessions, from the request to the response (like those of Kafka's FetchSession)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.fetch_sessions.partition import CachedPartition, Result
from muster.gateway.fetch_sessions.session import INVALID_SESSION_ID, FetchSession

CreateSession = Callable[[Collection[CachedPartition]], int]
"""Returns the id of the session; 0 if there is none to be had."""


class FetchContext:
    """A Fetch without a session: the response has all partitions of the request."""

    session: FetchSession | None = None
    """The one that was continued."""
    keeps_state = False
    """Whether :meth:`includes` must be called."""

    def __init__(self, partitions: Collection[CachedPartition]) -> None:
        self.partitions = partitions
        """Partitions to fetch, in this order."""

    def begin_response(self) -> ErrorCode:
        """Begin the response: called once, when it is known what there is. An error is the whole response."""
        return ErrorCode.none

    def would_include(self, partition: CachedPartition, result: Result) -> bool:
        """Return the result that :meth:`includes` would have; the session stays as it is."""
        return True

    def includes(self, partition: CachedPartition, result: Result) -> bool:
        """Whether the response has this partition. Called once for each, unless nothing is new of it."""
        return True

    def session_id(self) -> int:
        """Return the id for the response; called last."""
        return INVALID_SESSION_ID


class FullFetchContext(FetchContext):
    """A Fetch that begins a session."""

    keeps_state = True

    def __init__(self, partitions: Collection[CachedPartition], create: CreateSession) -> None:
        super().__init__(partitions)
        self._create = create

    def includes(self, partition: CachedPartition, result: Result) -> bool:
        partition.respond(result)
        return True

    def session_id(self) -> int:
        return self._create(self.partitions)


class IncrementalFetchContext(FetchContext):
    """A Fetch that continues a session: of its partitions, the response has those with news."""

    keeps_state = True

    def __init__(self, session: FetchSession) -> None:
        super().__init__(session.partitions.values())
        self.session = session
        self._epoch = session.epoch

    def begin_response(self) -> ErrorCode:
        """Return an error if another request has continued the session meanwhile."""
        assert self.session is not None
        return ErrorCode.none if self.session.epoch == self._epoch else ErrorCode.invalid_fetch_session_epoch

    def would_include(self, partition: CachedPartition, result: Result) -> bool:
        return partition.is_news(result)

    def includes(self, partition: CachedPartition, result: Result) -> bool:
        assert self.session is not None
        if not partition.respond(result):
            return False
        if result.has_records:
            self.session.serve_last(partition)
        return True

    def session_id(self) -> int:
        assert self.session is not None
        return self.session.id

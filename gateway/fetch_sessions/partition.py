"""A partition of a Fetch: what the client requests of it, and what it was last sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

_UNKNOWN = -1

Key = tuple[str | None, UUID | None, int]
"""Topic name (None from v13 on), topic id (None before), partition."""


class Result(NamedTuple):
    """Result for a partition of a response."""

    is_error: bool
    high_watermark: int
    log_start_offset: int
    has_records: bool
    leads_away: bool = False
    """Whether it names another replica to fetch from (KIP-392)."""
    diverges: bool = False
    """Whether it says where the log and the client's records part (KIP-595)."""


class CachedPartition:
    """Cached partition, like Kafka's ``FetchSession.CachedPartition``; without a session, for one response."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "resolved",
        "was_known",
    )

    def __init__(
        self,
        key: Key,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
    ) -> None:
        self.key = key
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.high_watermark = _UNKNOWN
        """The last one sent; -1 if none was, or if the partition must be in the next response."""
        self.log_start_offset = _UNKNOWN
        self.was_known = False
        """Whether a topic with its id was once found: if it is missing later, it was deleted."""
        self.resolved: Callable[[], Any] | None = None
        """Cache of its handler, while the request is the same. A weak reference: it has this."""

    def request(self, other: CachedPartition) -> None:
        """Take over what is requested of it now."""
        self.fetch_offset, self.max_bytes = other.fetch_offset, other.max_bytes
        self.current_leader_epoch, self.last_fetched_epoch = other.current_leader_epoch, other.last_fetched_epoch
        self.resolved = None

    def is_news(self, result: Result) -> bool:
        """Whether an incremental response must include it."""
        is_error, high_watermark, log_start_offset, has_records, leads_away, diverges = result
        is_new = high_watermark != self.high_watermark or log_start_offset != self.log_start_offset
        return is_error or diverges or is_new or has_records or leads_away

    def respond(self, result: Result) -> bool:
        """Whether an incremental response must include it; if so, it is considered sent."""
        is_news = self.is_news(result)
        self.high_watermark, self.log_start_offset = result.high_watermark, result.log_start_offset
        if result.is_error or result.diverges:
            self.high_watermark = _UNKNOWN  # it is sent again once that is over
        return is_news

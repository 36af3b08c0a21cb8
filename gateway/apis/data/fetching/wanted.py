"""One partition of a Fetch: where it is, and what there is of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from muster.actors.wire.internal.fetch import (
    AbortedTransaction,
    FetchedPartition,
    FetchPartition,
    Place,
    pack_partition,
)
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import Buffer
from muster.gateway.apis.partitions import Named
from muster.gateway.fetch_sessions.partition import CachedPartition, Result
from muster.gateway.listener.file_records import FileRecords

HERE = -1
"""No other replica is preferred."""


class PartitionData(NamedTuple):
    """Partition of a response."""

    partition_index: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: Sequence[AbortedTransaction] | None
    preferred_read_replica: int
    records: Sequence[Buffer | FileRecords] | bytes


class Wanted:
    """A session keeps it from one request to the next; what was found is forgotten with each response."""

    __slots__ = ("__weakref__", "cached", "fetch_offset", "files", "found", "named", "packed", "preferred", "records")

    def __init__(self, cached: CachedPartition, named: Named, preferred: int = HERE) -> None:
        self.cached = cached
        self.fetch_offset = cached.fetch_offset
        self.named = named
        self.preferred = preferred
        """The replica that the consumer should fetch from instead, by broker id."""
        self.found: FetchedPartition | None = None
        self.records: Sequence[Buffer] = ()
        self.files: Sequence[FileRecords] = ()
        """The records once more, if they are in files and need not stay in memory."""
        self.packed = b"" if named.topic is None else pack_partition(self.partition(cached.max_bytes))

    def partition(self, max_bytes: int) -> FetchPartition:
        """Return the partition of a request to the actor."""
        assert self.named.topic is not None
        cached = self.cached
        return FetchPartition(
            self.named.topic.topic_id,
            self.named.partition,
            cached.current_leader_epoch,
            self.fetch_offset,
            max_bytes,
            cached.last_fetched_epoch,
        )

    def fail(self, error: ErrorCode) -> None:
        self.found, self.records, self.files = FetchedPartition(error, -1, -1), (), ()

    def take(self, found: FetchedPartition) -> None:
        self.found = found
        self.records, self.files = (found.records,) if found.records else (), ()
        if self.leads_away:
            self.drop()

    def shorten(self, places: Sequence[Place]) -> None:
        """Keep only the records at these places."""
        assert self.found is not None
        self.found = self.found._replace(places=places)

    def drop(self) -> None:
        """Leave its records out."""
        assert self.found is not None
        aborted = None if self.found.aborted_transactions is None else ()
        self.found = self.found._replace(places=(), records=b"", aborted_transactions=aborted)
        self.records, self.files = (), ()

    def forget(self) -> None:
        """Drop the result: the response is written."""
        self.found, self.records, self.files = None, (), ()

    @property
    def leads_away(self) -> bool:
        """Whether the consumer is sent to another replica instead of getting records."""
        return self.preferred != HERE

    @property
    def places(self) -> Sequence[Place]:
        """Where records are that have not been read."""
        return self.found.places if self.found is not None and not self.records else ()

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.records)) or sum(place.size_bytes for place in self.places)

    @property
    def failed(self) -> bool:
        return self.found is not None and self.found.error_code is not ErrorCode.none

    @property
    def diverges(self) -> bool:
        return self.found is not None and self.found.diverging is not None

    @property
    def result(self) -> Result:
        """Result for the session."""
        found = self.found
        assert found is not None
        is_error = found.error_code is not ErrorCode.none
        leads_away = self.leads_away and not is_error
        ends = (found.high_watermark, found.log_start_offset)
        return Result(is_error, *ends, bool(self.records), leads_away, found.diverging is not None)

    def response(self) -> PartitionData | dict[str, Any]:
        """Return the result for the client."""
        assert self.found is not None
        error, high_watermark, log_start_offset, _, _, last_stable_offset, aborted, diverging = self.found
        data = PartitionData(
            self.named.partition,
            error,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            aborted,
            HERE if self.failed else self.preferred,
            list(self.files or self.records),
        )
        return data if diverging is None else {**data._asdict(), "diverging_epoch": diverging}


def envelope(error: ErrorCode, session_id: int, responses: Sequence[Any]) -> dict[str, Any]:
    """Return the response."""
    return {"throttle_time": 0, "error_code": error, "session_id": session_id, "responses": responses}

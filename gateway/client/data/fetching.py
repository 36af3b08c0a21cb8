"""Reads one range of a partition into Arrow, as ``read_committed`` sees it, for one task."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muster.actors.log.errors import LogError
from muster.actors.log.format.arrow.reading import read_columns
from muster.actors.log.format.batch import HEADER_BYTES, is_plausible, read_header
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.data.ranges import Range
from muster.gateway.client.errors import CorruptRecords, NoResponse, OffsetOutOfRange
from muster.gateway.client.kafka.connection import Connection
from muster.gateway.client.kafka.leaders import Leaders, Patience, check_or_later
from muster.gateway.client.kafka.offsets import log_offsets
from muster.gateway.client.kafka.requests import EARLIEST, NO_LEADER_EPOCH, NO_REPLICA, READ_COMMITTED

if TYPE_CHECKING:
    from muster.gateway.client.cluster import Cluster

FETCH, OFFSET_COMMIT = (1, 12), (8, 8)
_NO_MEMBER = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
_NO_SESSION = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
_WAIT_MS = 500
_FIRST_BYTES, _MIN_BYTES, _MAX_BYTES = 256 << 10, 4 << 10, 4 << 20
_MARGIN = 1.1
"""Bytes that are requested, by those of the remaining records if they are as large as the ones before."""
_EMPTY_S = 30.0
"""Time of empty responses after which a range has no more records: those to its end were compacted away."""
_REGISTER_S = 300.0
"""Half of ``attribution.simple.ttl.ms``, the time for which Muster remembers who reads on a connection."""


def client_id(group: str) -> str:
    """Return the client id of those who read for the group."""
    return f"muster-data-{group}"


def read_range(
    cluster: Cluster, group: str, wanted: Range, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the committed records of the range, a few MiB in each.

    Raises OffsetOutOfRange if records of it have been deleted, CorruptRecords, UnknownTopic, Refused, or NoResponse if
    the partition cannot be read for a minute.
    """
    with cluster.leaders(client_id(group)) as leaders:
        yield from _Range(leaders, group, wanted, columns).read()


class _Range:
    """A range that is being read."""

    def __init__(self, leaders: Leaders, group: str, wanted: Range, columns: Sequence[str] | None) -> None:
        self._leaders, self._group, self._wanted, self._columns = leaders, group, wanted, columns
        self._offset = wanted.start
        self._bytes_per_offset: float | None = None
        self._registered_s = 0.0

    def read(self) -> Iterator[pa.RecordBatch]:
        patience = Patience()
        while self._offset < self._wanted.end:
            before, why = self._offset, "it is not the leader"
            try:
                yield from self._from_leader(self._connection())
            except OSError as error:
                why = str(error)
            if self._offset >= self._wanted.end:
                return
            if self._offset > before:
                patience.renew()
            elif patience.is_over:
                raise NoResponse(f"leader of {self._wanted.topic}-{self._wanted.partition}", why)
            self._leaders.forget([self._wanted.topic])
            patience.pause()

    def _connection(self) -> Connection:
        connection = self._leaders.connection((self._wanted.topic, self._wanted.partition))
        self._register(connection)
        return connection

    def _register(self, connection: Connection) -> None:
        """Tell Muster on this connection whose bytes are fetched on it: docs/attribution.md, ``same_connection``.

        It is a commit of nothing, which changes nothing, in Kafka as well, where any broker responds to it. OffsetFetch
        is no evidence: exporters of lag send it for groups that others read for.
        """
        connection.request(*OFFSET_COMMIT, {"group_id": self._group, **_NO_MEMBER, "topics": []})
        self._registered_s = time.monotonic()

    def _from_leader(self, connection: Connection) -> Iterator[pa.RecordBatch]:
        """Yield records until the range ends, or the leader has an error that may pass. Raises OSError."""
        compacted, stuck = Patience(_EMPTY_S), Patience()
        self._send(connection, self._offset)
        while True:
            found = self._receive(connection)
            if found is None:
                self._send(connection, self._offset)
                continue
            if found.error_code is ErrorCode.offset_out_of_range:
                raise OffsetOutOfRange(self._deleted())
            if not check_or_later(found, f"{self._wanted.topic}-{self._wanted.partition} cannot be read"):
                return
            records = found.records or b""
            after = _end_of(records)
            if after is None and records:
                raise CorruptRecords(f"{self._wanted.topic}-{self._wanted.partition}: no whole record batch")
            if after is None:
                if found.last_stable_offset < self._wanted.end:
                    compacted.renew()
                    if stuck.is_over:
                        raise OffsetOutOfRange(self._short(found.last_stable_offset))
                elif compacted.is_over:
                    self._offset = self._wanted.end
                    return
                self._send(connection, self._offset)
                continue
            compacted.renew()
            stuck.renew()
            self._note_size(len(records), after - self._offset)
            if after < self._wanted.end:
                self._send(connection, after)  # it is under way while these records are decoded
            yield from self._decoded(found, records)
            if self._offset >= self._wanted.end:
                return

    def _receive(self, connection: Connection) -> Any:
        """Return the partition's part; None if the response was throttled, which is empty. Raises OSError."""
        response = connection.receive(*FETCH)
        if response.throttle_time:
            time.sleep(response.throttle_time / 1000)  # KIP-219: the client waits
        if not check_or_later(response, f"{self._wanted.topic} cannot be read"):
            raise ConnectionError(response.error_code.name.upper())
        found = next((each for topic in response.responses for each in topic.partitions), None)
        if found is None and not response.throttle_time:
            raise ConnectionError("it responded without the partition")
        return found

    def _decoded(self, found: Any, records: bytes) -> Iterator[pa.RecordBatch]:
        aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
        topic, partition, _, end = self._wanted
        try:
            batches, after = read_columns(records, topic, partition, self._offset, end, aborted, columns=self._columns)
            yield from batches
        except LogError as error:
            raise CorruptRecords(f"{topic}-{partition} from offset {self._offset} cannot be read: {error}") from error
        self._offset = after

    def _send(self, connection: Connection, offset: int) -> None:
        if time.monotonic() - self._registered_s > _REGISTER_S:
            self._register(connection)
        max_bytes = self._max_bytes(self._wanted.end - offset)
        partition = {
            "partition": self._wanted.partition,
            "current_leader_epoch": NO_LEADER_EPOCH,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": max_bytes,
        }
        limits = {"max_wait": _WAIT_MS, "min_bytes": 1, "max_bytes": max_bytes, "isolation_level": READ_COMMITTED}
        topics = [{"topic": self._wanted.topic, "partitions": [partition]}]
        connection.send(
            *FETCH, {"cluster_id": None, "replica_id": NO_REPLICA, **limits, **_NO_SESSION, "topics": topics}
        )

    def _max_bytes(self, offsets: int) -> int:
        """Return how much to request: what is read beyond the range counts as the group's, too."""
        if self._bytes_per_offset is None:
            return _FIRST_BYTES
        return int(min(max(offsets * self._bytes_per_offset * _MARGIN, _MIN_BYTES), _MAX_BYTES))

    def _note_size(self, size_bytes: int, offsets: int) -> None:
        self._bytes_per_offset = size_bytes / max(offsets, 1)

    def _short(self, end_offset: int) -> str:
        topic, partition, _, end = self._wanted
        return (
            f"{topic}-{partition} was to be read to offset {end - 1}, but its log ends at {end_offset}: the topic was "
            "deleted and created again since, or its last records were lost"
        )

    def _deleted(self) -> str:
        topic, partition, _, end = self._wanted
        (start,) = log_offsets(self._leaders, [(topic, partition)], EARLIEST).values()
        return (
            f"records {self._offset} to {end - 1} of {topic}-{partition} were to be read, but its log begins at "
            f"{start}: they were deleted; begin with those that are left: a read by start='earliest', batches after "
            f"muster groups reset-offsets {self._group} --topic {topic}:{partition} --to-earliest --execute"
        )


def _end_of(records: bytes) -> int | None:
    """Return the offset after the last whole batch; None if there is none. A cut one may follow."""
    after, at = None, 0
    while at + HEADER_BYTES <= len(records):
        header = read_header(records, at)
        if not is_plausible(header) or at + header.size_bytes > len(records):
            break
        after = header.next_offset
        at += header.size_bytes
    return after

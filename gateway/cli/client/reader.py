"""Reads committed messages of partitions as they come, without a group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from muster.actors.log.errors import CorruptMessage, LogError
from muster.actors.log.format.batch import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, is_plausible, read_header
from muster.actors.log.format.control import read_control
from muster.actors.log.format.records import Record, read_records
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli.client.gateways import RETRIABLE, Gateways
from muster.gateway.cli.errors import CliError
from muster.gateway.client.kafka.refusals import check
from muster.gateway.client.kafka.requests import NO_LEADER_EPOCH, NO_REPLICA, READ_COMMITTED

FETCH = (1, 12)
_NO_SESSION = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
_PATIENCE_S, _PAUSE_S = 60.0, 0.1
"""How long a partition may be unreadable with an error that passes by itself; before the next request if one is."""
_WAIT_MS, _MAX_BYTES, _MAX_PARTITION_BYTES = 500, 50 << 20, 1 << 20


class Received(NamedTuple):
    partition: int
    timestamp_ms: int | None
    record: Record


def messages(client: Gateways, topic: str, offsets: Mapping[int, int]) -> Iterator[Received]:
    """Yield the messages from these offsets on, without end; those of a partition in order.

    Raises CliError if the topic cannot be read any longer, or the next message has been deleted.
    """
    at = dict(offsets)
    failed_s: dict[int, float] = {}
    while True:
        response = client.request(*FETCH, _request(topic, at), retriable=())
        check(response, f"topic {topic} cannot be read")
        for found in (each for one in response.responses for each in one.partitions):
            if found.error_code in RETRIABLE:
                now_s = time.monotonic()
                if now_s - failed_s.setdefault(found.partition_index, now_s) < _PATIENCE_S:
                    continue
            else:
                failed_s.pop(found.partition_index, None)
            if found.error_code is ErrorCode.offset_out_of_range:
                raise CliError(
                    f"{topic}-{found.partition_index} no longer has the next message: deleted before it could be "
                    "shown; --from-beginning shows those that are left"
                )
            check(found, f"topic {topic} cannot be read")
            try:
                for offset, message in _committed(found, at[found.partition_index]):
                    at[found.partition_index] = offset + 1
                    if message is not None:
                        yield message
            except LogError as error:
                raise CliError(f"topic {topic} cannot be read: {error}") from error
        if failed_s:
            time.sleep(_PAUSE_S)  # an error comes at once, however long a response may wait for messages
        if len(failed_s) == len(at):
            client.close()  # another gateway may reach them
        at = {index: at[index] for index in (*list(at)[1:], *list(at)[:1])}  # a full response has not each partition


def _request(topic: str, offsets: Mapping[int, int]) -> dict[str, Any]:
    partitions = [
        {
            "partition": index,
            "current_leader_epoch": NO_LEADER_EPOCH,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": _MAX_PARTITION_BYTES,
        }
        for index, offset in offsets.items()
    ]
    limits = {"max_wait": _WAIT_MS, "min_bytes": 1, "max_bytes": _MAX_BYTES, "isolation_level": READ_COMMITTED}
    topics = [{"topic": topic, "partitions": partitions}]
    return {"cluster_id": None, "replica_id": NO_REPLICA, **limits, **_NO_SESSION, "topics": topics}


def _committed(found: Any, start: int) -> Iterator[tuple[int, Received | None]]:
    """Yield the last offset of each batch, and before it each message from ``start`` on that is not aborted.

    Raises LogError.
    """
    aborted = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions or ())
    open_aborted: set[int] = set()
    for header, batch in _batches(bytes(found.records or b"")):
        last_offset = header.base_offset + header.last_offset_delta
        while aborted and aborted[0][0] <= last_offset:
            open_aborted.add(aborted.pop(0)[1])
        if header.is_control:
            end = read_control(batch, header)
            if end is not None and not end.commit:
                open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            for record in read_records(batch, header):
                if record.offset >= start:
                    time_ms = None if record.timestamp_ms == NO_TIMESTAMP else record.timestamp_ms
                    yield record.offset, Received(found.partition_index, time_ms, record)
        yield last_offset, None


def _batches(records: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the whole batches; the last may be cut. Raises CorruptMessage."""
    at = 0
    while at + HEADER_BYTES <= len(records):
        header = read_header(records, at)
        if not is_plausible(header):
            raise CorruptMessage(f"no record batch at byte {at} of a response")
        end = at + header.size_bytes
        if end > len(records):
            return
        yield header, records[at:end]
        at = end

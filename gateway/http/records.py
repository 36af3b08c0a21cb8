"""``GET /v1/topics/records``: records of one partition, a page at a time, as the caller's own Fetch returns them.

``topic=T&partition=P``, and one of ``offset=N``, ``time_ms=MS``, ``from=earliest`` and ``from=latest`` (the default):
the last ones. ``limit`` records (50, at most 500) are returned, or fewer: no more is read than ``max_bytes`` (1 MiB, at
most 8 MiB), but one batch at least. ``{"topic", "partition", "isolation": "read_uncommitted", "start_offset",
"end_offset", "next_offset", "records": [{"offset", "timestamp_ms", "key", "value", "headers": [[NAME, VALUE], ...],
"size_bytes"}]}``; ``next_offset`` is where the next page begins, and an offset outside of the partition counts as its
nearest end. Records of transactions that are open or were aborted are there as well; control records are not.

A key or value is null, ``{"text": ...}``, or ``{"hex": ...}`` if it is not UTF-8 or has control characters; with
``size_bytes``, and with ``"cut": true`` if it is only the first 64 KiB. Headers beyond the first hundred are counted in
``headers_left_out``.

It needs READ on the topic. What is fetched has the reason ``internal`` in the attribution, since no group consumes it,
and counts towards the caller's quotas: 429 while one is exceeded. Other errors are those of
:mod:`muster.gateway.http.groups`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from aiohttp import web

from muster.actors.log.errors import LogError
from muster.actors.log.format.batch import NO_TIMESTAMP, iter_headers
from muster.actors.log.format.records import Record, read_records
from muster.gateway.attribution.evidence_rules import INTERNAL_PREFIX
from muster.gateway.client.kafka.refusals import check
from muster.gateway.client.kafka.requests import (
    EARLIEST,
    LATEST,
    LIST_OFFSETS,
    NO_LEADER_EPOCH,
    NO_REPLICA,
    READ_UNCOMMITTED,
)
from muster.gateway.http.callers import current_caller
from muster.gateway.http.groups import Failed, as_json, number, required
from muster.gateway.http.kafka import KafkaRequests, requests_of, translated
from muster.gateway.listener.gateway import Gateway

FETCH = (1, 12)
CLIENT_ID = f"{INTERNAL_PREFIX}http"
"""The client id of Fetch, by which attribution knows that no group consumes what is sent."""
DEFAULT_LIMIT, LARGEST_LIMIT = 50, 500
_DEFAULT_BYTES, _SMALLEST_BYTES, _LARGEST_BYTES = 1 << 20, 1 << 10, 8 << 20
SHOWN_BYTES = 64 << 10
"""The beginning of a key, value or header that is shown."""
SHOWN_HEADERS = 100
_AT_ONCE = 2
"""Pages that are read at once: a batch may have some 64 MiB when it is decompressed."""
_ATTEMPTS = 12
_WIDER = 4
"""Factor by which more offsets are read where the last ones are no records."""
_MAX_DIGITS = 18
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_NO_SESSION = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}


class Page(NamedTuple):
    """Records from an offset on."""

    records: list[Record]
    next_offset: int
    """Offset after the last record, or after what else was read."""
    size_bytes: int = 0
    is_full: bool = False
    """Whether it has as many records, or bytes, as it may."""


class _Partition(NamedTuple):
    """One partition, as one caller reads it."""

    requests: KafkaRequests
    topic: str
    number: int
    start_offset: int
    end_offset: int

    async def page(self, offset: int, limit: int, max_bytes: int) -> Page:
        """Return up to ``limit`` records. Raises Refused, NoResponse or Failed."""
        records: list[Record] = []
        at, fetched_bytes, size_bytes = offset, 0, 0
        while at < self.end_offset and fetched_bytes < max_bytes:
            fetched = await self._fetch(at, max_bytes - fetched_bytes)
            if not fetched:
                break
            left = limit - len(records), max_bytes - size_bytes
            found = await asyncio.to_thread(read_page, fetched, at, *left, is_begun=bool(records))
            records += found.records
            at = found.next_offset
            if found.is_full:
                break
            fetched_bytes += len(fetched)
            size_bytes += found.size_bytes
        return Page(records, at)

    async def last(self, limit: int, max_bytes: int) -> Page:
        """Return the last records, ``limit`` of them if they are no more than ``max_bytes``.

        Fewer offsets are read if the end is not reached, and more if too few of them are records.
        """
        offsets, is_cut = limit, False
        best = Page([], self.end_offset)
        for _ in range(_ATTEMPTS):
            offset = max(self.end_offset - offsets, self.start_offset)
            found = await self.page(offset, offsets, max_bytes)
            if found.next_offset < self.end_offset:
                if best.records or offsets == 1:
                    return best if best.records else found
                offsets, is_cut = max(offsets // 2, 1), True
                continue
            best = Page(found.records[-limit:], found.next_offset)
            if is_cut or len(found.records) >= limit or offset == self.start_offset:
                break
            offsets *= _WIDER
        return best

    async def _fetch(self, offset: int, max_bytes: int) -> bytes:
        partition = {
            "partition": self.number,
            "current_leader_epoch": NO_LEADER_EPOCH,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": max_bytes,
        }
        limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": max_bytes, "isolation_level": READ_UNCOMMITTED}
        topics = [{"topic": self.topic, "partitions": [partition]}]
        body = {"cluster_id": None, "replica_id": NO_REPLICA, **limits, **_NO_SESSION, "topics": topics}
        response = await self.requests.send(*FETCH, body)
        check(response, f"topic {self.topic} cannot be read")
        found = next((each for topic in response.responses for each in topic.partitions), None)
        if found is None:
            raise Failed(429, "the caller has fetched as much as its quota allows; try again later")
        check(found, f"partition {self.number} of topic {self.topic} cannot be read")
        return bytes(found.records or b"")


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the route of this module; the app has not been started yet."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def records(request: web.Request) -> dict[str, Any]:
        topic, index = required(request, "topic"), number(request, "partition", 0, 0, 10**9 - 1)
        limit = number(request, "limit", DEFAULT_LIMIT, 1, LARGEST_LIMIT)
        max_bytes = number(request, "max_bytes", _DEFAULT_BYTES, _SMALLEST_BYTES, _LARGEST_BYTES)
        begin = _begin_of(request)
        with requests_of(gateway, current_caller(), CLIENT_ID) as requests:
            async with turns:
                return await translated(_browse(requests, topic, index, begin, limit, max_bytes))

    app.router.add_get("/v1/topics/records", as_json(records))


class _Begin(NamedTuple):
    """Where a page begins: at an offset, or at an offset that ListOffsets finds."""

    offset: int | None
    timestamp: int = LATEST
    """EARLIEST, LATEST, which stands for the last records, or a time in ms."""


def _begin_of(request: web.Request) -> _Begin:
    """Return where the page begins. Raises Failed (400)."""
    given = [name for name in ("offset", "time_ms", "from") if name in request.query]
    if len(given) > 1:
        raise Failed(400, "give one of offset, time_ms and from")
    if "from" in request.query:
        places = {"earliest": EARLIEST, "latest": LATEST}
        if (place := request.query["from"]) not in places:
            raise Failed(400, "from must be earliest or latest")
        return _Begin(None, places[place])
    if not given:
        return _Begin(None)
    text = request.query[given[0]]
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise Failed(400, f"{given[0]} must be a number from 0 on")
    return _Begin(int(text)) if given == ["offset"] else _Begin(None, int(text))


async def _browse(
    requests: KafkaRequests, topic: str, index: int, begin: _Begin, limit: int, max_bytes: int
) -> dict[str, Any]:
    """Return the response. Raises Refused, NoResponse or Failed."""
    start = await _list_offset(requests, topic, index, EARLIEST)
    end = await _list_offset(requests, topic, index, LATEST)
    partition = _Partition(requests, topic, index, start, end)
    if begin.offset is None and begin.timestamp == LATEST:
        page = await partition.last(limit, max_bytes)
    else:
        offset = begin.offset
        if offset is None:
            found = await _list_offset(requests, topic, index, begin.timestamp)
            offset = end if found < 0 else found
        page = await partition.page(min(max(offset, start), end), limit, max_bytes)
    return {
        "topic": topic,
        "partition": index,
        "isolation": "read_uncommitted",
        "start_offset": start,
        "end_offset": end,
        "next_offset": page.next_offset,
        "records": await asyncio.to_thread(lambda: [shown(record) for record in page.records]),
    }


async def _list_offset(requests: KafkaRequests, topic: str, index: int, at: int) -> int:
    wanted = {"partition_index": index, "current_leader_epoch": NO_LEADER_EPOCH, "timestamp": at}
    topics = [{"name": topic, "partitions": [wanted]}]
    body = {"replica_id": NO_REPLICA, "isolation_level": READ_UNCOMMITTED, "topics": topics}
    response = await requests.send(*LIST_OFFSETS, body)
    ((found,),) = (each.partitions for each in response.topics)
    check(found, f"partition {index} of topic {topic} cannot be read")
    return int(found.offset)


def read_page(fetched: bytes, offset: int, limit: int, max_bytes: int, *, is_begun: bool = False) -> Page:
    """Return records of whole batches, from an offset on: one at least, unless it continues a page.

    Raises Failed if they cannot be read.
    """
    records: list[Record] = []
    size_bytes = 0
    try:
        for record, after in _read(fetched, offset):
            if record is not None:
                size_bytes += size_of(record)
                if (records or is_begun) and size_bytes > max_bytes:
                    return Page(records, record.offset, size_bytes, is_full=True)
                records.append(record)
            offset = after
            if len(records) == limit:
                return Page(records, offset, size_bytes, is_full=True)
    except LogError as error:
        raise Failed(500, f"records from offset {offset} on cannot be read: {error}") from error
    return Page(records, offset, size_bytes, size_bytes >= max_bytes)


def _read(fetched: bytes, offset: int) -> Iterator[tuple[Record | None, int]]:
    """Yield each record with the offset after it, and at the end of each batch None. Raises LogError."""
    for at, header in iter_headers(fetched):
        if not header.is_control:
            for record in read_records(memoryview(fetched)[at : at + header.size_bytes], header):
                if record.offset >= offset:
                    yield record, record.offset + 1
        yield None, max(header.next_offset, offset)


def shown(record: Record) -> dict[str, Any]:
    """Return the record as JSON."""
    headers = [
        [name[:SHOWN_BYTES].decode(errors="backslashreplace"), shown_bytes(content)]
        for name, content in record.headers[:SHOWN_HEADERS]
    ]
    left_out = len(record.headers) - len(headers)
    return {
        "offset": record.offset,
        "timestamp_ms": None if record.timestamp_ms == NO_TIMESTAMP else record.timestamp_ms,
        "key": shown_bytes(record.key),
        "value": shown_bytes(record.value),
        "headers": headers,
        **({"headers_left_out": left_out} if left_out else {}),
        "size_bytes": size_of(record),
    }


def size_of(record: Record) -> int:
    """Return the number of bytes of key, value and headers."""
    of_headers = sum(len(name) + len(content or b"") for name, content in record.headers)
    return len(record.key or b"") + len(record.value or b"") + of_headers


def shown_bytes(content: bytes | None) -> dict[str, Any] | None:
    """Return a key, value or header as JSON."""
    if content is None:
        return None
    begun = content[:SHOWN_BYTES]
    is_cut = len(begun) < len(content)
    text = _text_of(begun, is_cut=is_cut)
    found = {"hex": begun.hex()} if text is None else {"text": text}
    return {**found, "size_bytes": len(content), **({"cut": True} if is_cut else {})}


def _text_of(content: bytes, *, is_cut: bool) -> str | None:
    """Return the text, without a character that the cut has split; None if it is none, or has control characters."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        if not (is_cut and error.end == len(content) and error.reason == "unexpected end of data"):
            return None
        text = content[: error.start].decode()
    return None if _CONTROL.search(text) else text

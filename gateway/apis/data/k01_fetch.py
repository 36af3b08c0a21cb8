"""Fetch (api key 1), v4-18.

Waits up to max_wait for min_bytes over all partitions, however many log actors own them; max_bytes applies
overall and per partition, but a first batch is always returned whole (KIP-74). No fetch session is ever
opened (KIP-227: session id 0 in the response), so every request names all its partitions; one that continues
a session gets FETCH_SESSION_ID_NOT_FOUND. If a partition occurs twice, the last occurrence counts, as in
Kafka. What is sent is counted for the group that fetches when it is written to the socket, not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any

from muster.actors.wire import codec
from muster.actors.wire.channel import ChannelLost
from muster.actors.wire.codec import ErrorCode, field, ms
from muster.gateway.apis.partitions import Named, by_topic, existence_error, named, owner_of, send, summarize
from muster.gateway.listener.forward import ActorKey
from muster.gateway.listener.registry import Call, Reply, api

FETCH = 1
INTERNAL_VERSION = 16
_GRACE_S = 10.0
_INITIAL_EPOCH, _FINAL_EPOCH = 0, -1
"""Epochs of a request that names all its partitions: it opens a session, or uses none (KIP-227)."""
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)


class _Wanted:
    """One partition of the request, and what has been read of it."""

    __slots__ = ("fetch_offset", "max_bytes", "named", "result")

    def __init__(self, partition: Named, item: Any) -> None:
        self.named = partition
        self.fetch_offset = item.fetch_offset
        self.max_bytes = item.partition_max_bytes
        self.result: dict[str, Any] = {}

    def fail(self, error: ErrorCode) -> None:
        self.result = _failed(self.named.partition, error)

    @property
    def size_bytes(self) -> int:
        return len(self.result.get("records") or b"")

    @property
    def failed(self) -> bool:
        return bool(self.result and self.result["error_code"])


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    """Errors of fetch sessions apply to the whole request, as in Kafka."""
    if error in _SESSION_ERRORS:
        return _envelope(error, [])
    responses = [
        {
            "topic": field(topic, "topic", None),
            "topic_id": field(topic, "topic_id", None),
            "partitions": [_failed(item.partition, error) for item in topic.partitions],
        }
        for topic in call.entity().topics
    ]
    return _envelope(ErrorCode.none, responses)


def _failed(partition: int, error: ErrorCode) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "error_code": error,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "aborted_transactions": None,
        "records": b"",
    }


@api(FETCH, "Fetch", error_body=_error_body, is_large=True)
async def fetch(call: Call) -> Reply | None:
    request = call.entity()
    if field(request, "session_epoch", _FINAL_EPOCH) not in (_INITIAL_EPOCH, _FINAL_EPOCH):
        return call.reply(_envelope(ErrorCode.fetch_session_id_not_found, []))
    wanted = _wanted(call, request)
    _fetching(call, wanted)
    await _read(call, request, wanted)
    _cut(wanted, _max_bytes(call, request))
    results = {item.named.key: item.result for item in wanted}
    responses = [
        {
            "topic": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [results[partition.key] for partition in partitions],
        }
        for topic, partitions in by_topic(item.named for item in wanted)
    ]
    reply = call.reply(_envelope(ErrorCode.none, responses))
    return Reply(reply.frame, partial(_account, call, wanted))


def _wanted(call: Call, request: Any) -> list[_Wanted]:
    found: dict[Any, _Wanted] = {}
    for topic in request.topics:
        for item in topic.partitions:
            name, topic_id = field(topic, "topic", None), field(topic, "topic_id", None)
            partition = named(call.gateway, name, topic_id, item.partition)
            found[partition.key] = _Wanted(partition, item)
    return list(found.values())


def _envelope(error: ErrorCode, responses: list[dict[str, Any]]) -> dict[str, Any]:
    return {"throttle_time": 0, "error_code": error, "session_id": 0, "responses": responses}


def _max_bytes(call: Call, request: Any) -> int:
    return min(int(request.max_bytes), call.gateway.config.fetch_max_bytes)


async def _read(call: Call, request: Any, wanted: list[_Wanted]) -> None:
    """Fill every partition's result: at once if there is enough or an error, else when there is, or at the deadline."""
    owners: dict[ActorKey, list[_Wanted]] = {}
    for item in wanted:
        if (error := existence_error(item.named)) is not None:
            item.fail(error)
            continue
        assert item.named.topic is not None
        owners.setdefault(owner_of(call.gateway, item.named.topic, item.named.partition), []).append(item)
    loop = asyncio.get_running_loop()
    max_wait_ms, min_bytes = ms(request.max_wait), min(request.min_bytes, _max_bytes(call, request))
    deadline = loop.time() + max_wait_ms / 1000
    if len(owners) == 1 and not any(item.failed for item in wanted):
        (owner,) = owners
        await _send(call, request, owner, owners[owner], max_wait_ms, min_bytes)
        return
    await asyncio.gather(*(_send(call, request, owner, items, 0, 0) for owner, items in owners.items()))
    growing = dict(owners)
    while growing and not _enough(wanted, min_bytes) and (left_s := deadline - loop.time()) > 0:
        for owner in await _wait_for_more(call, request, growing, round(left_s * 1000)):
            del growing[owner]  # its partitions have reached their own max_bytes: it has no more to return


def _enough(wanted: Iterable[_Wanted], min_bytes: int) -> bool:
    items = list(wanted)
    return not items or any(item.failed for item in items) or _size_bytes(items) >= min_bytes


async def _wait_for_more(
    call: Call, request: Any, owners: dict[ActorKey, list[_Wanted]], max_wait_ms: int
) -> list[ActorKey]:
    """Wait until any actor has more than it returned before. Returns those that responded without more."""
    before = {owner: _size_bytes(items) for owner, items in owners.items()}
    waits = {
        asyncio.ensure_future(_send(call, request, owner, items, max_wait_ms, 1 + before[owner])): owner
        for owner, items in owners.items()
    }
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    answered = [waits[wait] for wait in done]
    return [owner for owner in answered if _size_bytes(owners[owner]) <= before[owner]]


def _size_bytes(items: Iterable[_Wanted]) -> int:
    return sum(item.size_bytes for item in items)


async def _send(
    call: Call, request: Any, owner: ActorKey, items: list[_Wanted], max_wait_ms: int, min_bytes: int
) -> None:
    body = {
        "max_wait": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": _max_bytes(call, request),
        "isolation_level": field(request, "isolation_level", 0),
        "session_id": 0,
        "session_epoch": -1,
        "topics": _topics(items),
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    try:
        async with asyncio.timeout(max_wait_ms / 1000 + _GRACE_S):
            frame = await send(call, owner, FETCH, INTERNAL_VERSION, body)
    except ChannelLost:
        for item in items:
            item.fail(ErrorCode.not_leader_or_follower)
        return
    except TimeoutError:
        for item in items:
            item.fail(ErrorCode.request_timed_out)
        return
    _, response = codec.decode_response(FETCH, INTERNAL_VERSION, frame)
    _take(items, response)


def _topics(items: list[_Wanted]) -> list[dict[str, Any]]:
    wanted = {item.named.key: item for item in items}
    return [
        {
            "topic_id": topic.topic.topic_id if topic.topic else None,
            "partitions": [
                {
                    "partition": partition.partition,
                    "fetch_offset": wanted[partition.key].fetch_offset,
                    "partition_max_bytes": wanted[partition.key].max_bytes,
                }
                for partition in partitions
            ],
        }
        for topic, partitions in by_topic(item.named for item in items)
    ]


def _take(items: list[_Wanted], response: Any) -> None:
    if response.error_code is not ErrorCode.none:
        for item in items:
            item.fail(response.error_code)
        return
    by_id = {(item.named.topic.topic_id, item.named.partition): item for item in items if item.named.topic}
    for topic in response.responses:
        for data in topic.partitions:
            item = by_id[topic.topic_id, data.partition_index]
            item.result = {
                "partition_index": data.partition_index,
                "error_code": data.error_code,
                "high_watermark": data.high_watermark,
                "last_stable_offset": data.last_stable_offset,
                "log_start_offset": data.log_start_offset,
                "aborted_transactions": None,
                "records": data.records or b"",
            }


def _cut(wanted: list[_Wanted], max_bytes: int) -> None:
    """Enforce max_bytes over all actors' responses; the first partition with records keeps what it has."""
    total = 0
    for item in wanted:
        if total and total + item.size_bytes > max_bytes:
            item.result["records"] = b""
        total += item.size_bytes


def _fetching(call: Call, wanted: list[_Wanted]) -> None:
    """Whatever the result: which partitions a connection fetches, and from where, is evidence of its group."""
    connection, gateway, client_id = call.connection, call.gateway, call.header.client_id
    known = connection.attribution.fetches.get(client_id)
    if known is not None and len(known.current) == len(wanted):
        for item in wanted:
            topic = item.named.topic
            if topic is None or (topic.name, item.named.partition) not in known.current:
                break
        else:
            gateway.account.fetching_again(known, gateway.now_ms())
            return
    topics = ((item.named.topic, item) for item in wanted)
    offsets = {(topic.name, item.named.partition): item.fetch_offset for topic, item in topics if topic is not None}
    gateway.account.fetching(connection.attribution, connection.host, client_id, offsets, gateway.now_ms())


def _account(call: Call, wanted: list[_Wanted]) -> None:
    parts = []
    for item in wanted:
        records, topic, offset = item.result["records"], item.named.topic, item.fetch_offset
        if records and topic is not None:
            base_offset, last_offset, messages, batches = summarize(records)
            first_offset = base_offset if base_offset > offset else offset
            partition, size_bytes = item.named.partition, len(records)
            parts.append((topic.name, partition, offset, first_offset, last_offset, messages, size_bytes, batches))
    if not parts:
        return
    connection, gateway, client_id = call.connection, call.gateway, call.header.client_id
    gateway.account.sent(connection.attribution, connection.host, client_id, parts, gateway.now_ms())

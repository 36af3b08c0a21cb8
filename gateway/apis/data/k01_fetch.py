"""Fetch (api key 1), v4-18.

Waits up to max_wait for min_bytes over all partitions, however many log actors own them; max_bytes applies
overall and per partition, but a first batch is always returned whole (KIP-74). No fetch session is ever
opened (KIP-227: session id 0 in the response), so every request names all its partitions; one that continues
a session gets FETCH_SESSION_ID_NOT_FOUND. If a partition occurs twice, the last occurrence counts, as in
Kafka. Records in logs of this node are read from their files (muster.gateway.apis.data.places). What is sent is
counted for the group that fetches when it is written to the socket, not before. A consumer that names another rack
(v11+) is led to the partition's replica there, as by Kafka's RackAwareReplicaSelector (KIP-392).

What cannot be read in time gets an error that brokers send, too: Java's consumer throws an IllegalStateException at any
other, REQUEST_TIMED_OUT among them (FetchCollector.handleInitializeErrors).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from muster.actors.wire.channel import Channel, ChannelLost, OnFetched
from muster.actors.wire.codec import ErrorCode, field, ms
from muster.actors.wire.fetching import FetchedPartition, FetchPartition, FetchRequest, Place
from muster.actors.wire.framing import Buffer
from muster.gateway.apis.batches import summarize
from muster.gateway.apis.data import places
from muster.gateway.apis.partitions import Named, by_topic, channel_to, existence_error, named, owner_of
from muster.gateway.listener.forward import ActorKey
from muster.gateway.listener.registry import Call, Cancel, Reply, Responder, api

FETCH = 1
_GRACE_S = 10.0
_ATTEMPTS = 3
"""A role passes twice within seconds: from a killed actor to a standby, and back."""
_REPLACED = ErrorCode.not_leader_or_follower
_INITIAL_EPOCH, _FINAL_EPOCH = 0, -1
"""Epochs of a request that names all its partitions: it opens a session, or uses none (KIP-227)."""
_NO_LEADER_EPOCH = -1
_HERE = -1
"""No other replica is preferred."""
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)


class _Wanted:
    """One partition of the request, and what there is of it."""

    __slots__ = ("fetch_offset", "found", "max_bytes", "named", "preferred", "records")

    def __init__(self, partition: Named, item: Any) -> None:
        self.named = partition
        self.fetch_offset = item.fetch_offset
        self.max_bytes = item.partition_max_bytes
        self.found: FetchedPartition | None = None
        self.preferred = _HERE
        """The replica that the consumer should fetch from instead, by broker id."""
        self.records: Sequence[Buffer] = ()

    def fail(self, error: ErrorCode) -> None:
        self.found, self.records = FetchedPartition(error, -1, -1), ()

    def take(self, found: FetchedPartition) -> None:
        self.found = found
        self.records = (found.records,) if found.records else ()
        if self.leads_away:
            self.drop()

    def drop(self) -> None:
        """Leave its records out."""
        assert self.found is not None
        self.found, self.records = self.found._replace(places=(), records=b""), ()

    @property
    def leads_away(self) -> bool:
        """Whether the consumer is sent to another replica instead of getting records."""
        return self.preferred != _HERE

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

    def response(self) -> dict[str, Any]:
        assert self.found is not None
        error, high_watermark, log_start_offset, _, _, last_stable_offset, aborted = self.found
        preferred = _HERE if self.failed else self.preferred
        return {
            **_partition(self.named.partition, error, high_watermark, log_start_offset, list(self.records), preferred),
            "last_stable_offset": last_stable_offset,
            "aborted_transactions": aborted,
        }


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    """Errors of fetch sessions apply to the whole request, as in Kafka."""
    if error in _SESSION_ERRORS:
        return _envelope(error, [])
    responses = [
        {
            "topic": field(topic, "topic", None),
            "topic_id": field(topic, "topic_id", None),
            "partitions": [_partition(item.partition, error, -1, -1, b"") for item in topic.partitions],
        }
        for topic in call.entity().topics
    ]
    return _envelope(ErrorCode.none, responses)


def _partition(
    partition: int,
    error: ErrorCode,
    high_watermark: int,
    log_start_offset: int,
    records: Buffer | list[Buffer],
    preferred_read_replica: int = -1,
) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "error_code": error,
        "high_watermark": high_watermark,
        "last_stable_offset": -1,
        "log_start_offset": log_start_offset,
        "aborted_transactions": None,
        "preferred_read_replica": preferred_read_replica,
        "records": records,
    }


def _forward(call: Call, responder: Responder) -> Cancel | None:
    """Serve a fetch of one actor's partitions without a task."""
    request = call.entity()
    if call.connection.has_old_metadata or _continues_session(request):
        return None
    wanted = _wanted(call, request)
    owners = _by_owner(call, wanted)
    channel = channel_to(call.gateway, *owners) if _is_for_one(owners, wanted) else None
    if channel is None:
        return None
    (owner,) = owners
    _fetching(call, wanted)
    began_s = asyncio.get_running_loop().time()
    reading: asyncio.Task[None] | None = None

    def on_fetched(found: list[FetchedPartition] | ChannelLost) -> None:
        nonlocal reading
        try:
            _take(wanted, found)
            if not _is_replaced(found) and _read_now(wanted):
                responder.reply(_reply(call, wanted))
            else:
                reading = asyncio.get_running_loop().create_task(finish(found))
        except Exception as error:
            responder.fail(error)

    async def finish(found: list[FetchedPartition] | ChannelLost) -> None:
        try:
            if _is_replaced(found):
                left_ms = ms(request.max_wait) - round((asyncio.get_running_loop().time() - began_s) * 1000)
                await _fetch_from(call, owner, wanted, left_ms, request.min_bytes, instead_of=channel)
            await _read(call, wanted)
            responder.reply(_reply(call, wanted))
        except Exception as error:
            responder.fail(error)

    cancel_fetch = _send(call, channel, wanted, on_fetched, *_limits(call, request, wanted))

    def cancel() -> None:
        cancel_fetch()
        if reading is not None:
            reading.cancel()

    return cancel


def _by_owner(call: Call, wanted: list[_Wanted]) -> dict[ActorKey, list[_Wanted]]:
    """The partitions by the actor that owns them; those that do not exist fail."""
    owners: dict[ActorKey, list[_Wanted]] = {}
    for item in wanted:
        if (error := existence_error(item.named)) is not None:
            item.fail(error)
        else:
            assert item.named.topic is not None
            owners.setdefault(owner_of(call.gateway, item.named.topic, item.named.partition), []).append(item)
    return owners


def _is_for_one(owners: dict[ActorKey, list[_Wanted]], wanted: list[_Wanted]) -> bool:
    """Whether one actor owns all partitions, and all of them exist."""
    return len(owners) == 1 and not any(item.failed for item in wanted)


@api(FETCH, "Fetch", error_body=_error_body, forward=_forward, is_large=True)
async def fetch(call: Call) -> Reply | None:
    request = call.entity()
    if _continues_session(request):
        return call.reply(_envelope(ErrorCode.fetch_session_id_not_found, []))
    if call.connection.has_old_metadata:
        call.connection.has_old_metadata = False
        return call.reply(_error_body(call, ErrorCode.not_leader_or_follower))
    wanted = _wanted(call, request)
    _fetching(call, wanted)
    await _find(call, request, wanted)
    _cut(wanted, _max_bytes(call, request))
    if not _read_now(wanted):
        await _read(call, wanted)
    return _reply(call, wanted)


def _continues_session(request: Any) -> bool:
    return field(request, "session_epoch", _FINAL_EPOCH) not in (_INITIAL_EPOCH, _FINAL_EPOCH)


def _reply(call: Call, wanted: list[_Wanted]) -> Reply:
    results = {item.named.key: item.response() for item in wanted}
    responses = [
        {
            "topic": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [results[partition.key] for partition in partitions],
        }
        for topic, partitions in by_topic(item.named for item in wanted)
    ]
    return Reply(call.reply(_envelope(ErrorCode.none, responses)).parts, partial(_account, call, wanted))


def _wanted(call: Call, request: Any) -> list[_Wanted]:
    found: dict[Any, _Wanted] = {}
    for topic in request.topics:
        for item in topic.partitions:
            name, topic_id = field(topic, "topic", None), field(topic, "topic_id", None)
            partition = named(call.gateway, name, topic_id, item.partition)
            found[partition.key] = _Wanted(partition, item)
    wanted = list(found.values())
    if rack := field(request, "rack_id", ""):
        _prefer_rack(call, rack, wanted)
    return wanted


def _prefer_rack(call: Call, rack: str, wanted: list[_Wanted]) -> None:
    """Lead a consumer of another rack to the replica there (KIP-392), if the partition has one."""
    gateway = call.gateway
    if gateway.view.rack_of(gateway.id) == rack:
        return
    for item in wanted:
        topic = item.named.topic
        if topic is not None and (replica := gateway.view.replica_in(rack, topic, item.named.partition)) is not None:
            item.preferred = replica


def _limits(call: Call, request: Any, wanted: list[_Wanted]) -> tuple[int, int]:
    """For how long, in ms, to wait for how many bytes. As in Kafka, no time if the consumer should fetch elsewhere."""
    if any(item.leads_away for item in wanted):
        return 0, 0
    return ms(request.max_wait), min(request.min_bytes, _max_bytes(call, request))


def _envelope(error: ErrorCode, responses: list[dict[str, Any]]) -> dict[str, Any]:
    return {"throttle_time": 0, "error_code": error, "session_id": 0, "responses": responses}


def _max_bytes(call: Call, request: Any) -> int:
    return min(int(request.max_bytes), call.gateway.config.fetch_max_bytes)


async def _find(call: Call, request: Any, wanted: list[_Wanted]) -> None:
    """Find what there is of every partition: at once if it is enough or an error, else then, or at the deadline."""
    owners = _by_owner(call, wanted)
    loop = asyncio.get_running_loop()
    max_wait_ms, min_bytes = _limits(call, request, wanted)
    deadline = loop.time() + max_wait_ms / 1000
    if _is_for_one(owners, wanted):
        (owner,) = owners
        await _fetch_from(call, owner, owners[owner], max_wait_ms, min_bytes)
        return
    await asyncio.gather(*(_fetch_from(call, owner, items, 0, 0) for owner, items in owners.items()))
    growing = dict(owners)
    while growing and not _enough(wanted, min_bytes) and (left_s := deadline - loop.time()) > 0:
        for owner in await _wait_for_more(call, growing, round(left_s * 1000)):
            del growing[owner]  # its partitions have reached their own max_bytes: it has no more to return


def _enough(wanted: Iterable[_Wanted], min_bytes: int) -> bool:
    items = list(wanted)
    return not items or any(item.failed for item in items) or _size_bytes(items) >= min_bytes


async def _wait_for_more(call: Call, owners: dict[ActorKey, list[_Wanted]], max_wait_ms: int) -> list[ActorKey]:
    """Wait until any actor has more than it returned before. Returns those that responded without more."""
    before = {owner: _size_bytes(items) for owner, items in owners.items()}
    waits = {
        asyncio.ensure_future(_fetch_from(call, owner, items, max_wait_ms, 1 + before[owner])): owner
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


async def _fetch_from(
    call: Call,
    owner: ActorKey,
    items: list[_Wanted],
    max_wait_ms: int,
    min_bytes: int,
    *,
    by_place: bool = True,
    instead_of: Channel | None = None,
) -> None:
    """Fetch partitions of one actor; a failure is a failure of all of them.

    An actor that is being replaced is waited for, since clients wait longer after an error. ``instead_of``: over which
    channel the fetch has failed for that reason.
    """
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + max_wait_ms / 1000
    for _ in range(_ATTEMPTS):
        channel = await call.gateway.forwarder.soon(owner, instead_of)
        if channel is None:
            return _take(items, ChannelLost("down"))
        left_ms = round((ends_s - loop.time()) * 1000)
        found = await _fetch_over(call, channel, items, left_ms, min_bytes, by_place=by_place)
        _take(items, found)
        if not _is_replaced(found):
            return None
        instead_of = channel
    return None


def _is_replaced(found: list[FetchedPartition] | ChannelLost) -> bool:
    """Whether the actor is lost, or about to be replaced."""
    return isinstance(found, ChannelLost) or all(part.error_code is _REPLACED for part in found)


async def _fetch_over(
    call: Call, channel: Channel, items: list[_Wanted], max_wait_ms: int, min_bytes: int, *, by_place: bool
) -> list[FetchedPartition] | ChannelLost:
    found: asyncio.Future[list[FetchedPartition] | ChannelLost] = asyncio.get_running_loop().create_future()

    def on_fetched(response: list[FetchedPartition] | ChannelLost) -> None:
        if not found.done():
            found.set_result(response)

    cancel = _send(call, channel, items, on_fetched, max_wait_ms, min_bytes, by_place=by_place)
    try:
        return await found
    finally:
        cancel()


def _send(
    call: Call,
    channel: Channel,
    items: list[_Wanted],
    on_fetched: OnFetched,
    max_wait_ms: int,
    min_bytes: int,
    *,
    by_place: bool = True,
) -> Cancel:
    max_bytes, max_wait_ms = _max_bytes(call, call.entity()), max(max_wait_ms, 0)
    partitions = [
        FetchPartition(
            item.named.topic.topic_id, item.named.partition, _NO_LEADER_EPOCH, item.fetch_offset, item.max_bytes
        )
        for item in items
        if item.named.topic is not None
    ]
    isolation_level = int(call.entity().isolation_level)
    limits = (max_wait_ms, min_bytes, max_bytes)
    request = FetchRequest(by_place and channel.is_local, *limits, partitions, isolation_level)
    token = channel.fetch(request, on_fetched, timeout_s=max_wait_ms / 1000 + _GRACE_S)
    return partial(channel.cancel, token)


def _take(items: list[_Wanted], found: list[FetchedPartition] | ChannelLost) -> None:
    if isinstance(found, ChannelLost):
        for item in items:
            item.fail(_REPLACED)
        return
    for item, part in zip(items, found, strict=True):
        item.take(part)


def _read_now(wanted: list[_Wanted]) -> bool:
    """Read the records if they are in the page cache. Returns whether they are."""
    unread = [item for item in wanted if item.places]
    try:
        found = places.PAGE_CACHE.read([item.places for item in unread])
    except places.Unread:
        return False
    if found is None:
        return False
    for item, records in zip(unread, found, strict=True):
        item.records = records
    return True


async def _read(call: Call, wanted: list[_Wanted]) -> None:
    """Read the records. The actor is asked for those that a file does not hold (any more)."""
    unread = [item for item in wanted if item.places]
    if not unread:
        return
    try:
        found = await places.read([item.places for item in unread])
    except TimeoutError:
        for item in unread:
            item.fail(ErrorCode.kafka_storage_error)
        return
    for item, records in zip(unread, found, strict=True):
        if records is not None:
            item.records = records
        else:
            await _read_from_actor(call, item)


async def _read_from_actor(call: Call, item: _Wanted) -> None:
    """As much as there was at the places."""
    assert item.named.topic is not None
    topic, partition = item.named.topic, item.named.partition
    owner = owner_of(call.gateway, topic, partition)
    text = "a segment file of %s-%d cannot be read here, its actor is asked instead"
    call.gateway.complaints.warning("unread places", f"{owner}", text, topic.name, partition)
    item.max_bytes = item.size_bytes
    await _fetch_from(call, owner, [item], 0, 0, by_place=False)


def _cut(wanted: list[_Wanted], max_bytes: int) -> None:
    """Enforce max_bytes over all actors' responses; the first partition with records keeps what it has."""
    total = 0
    for item in wanted:
        if total and total + item.size_bytes > max_bytes:
            item.drop()
        total += item.size_bytes


def _fetching(call: Call, wanted: list[_Wanted]) -> None:
    """Whatever the result: which partitions a connection fetches, and from where, is evidence of its group."""
    connection, gateway, client_id = call.connection, call.gateway, call.header.client_id
    known = connection.attribution.fetches.get(client_id)
    if known is not None and len(known.current) == len(wanted):
        for item in wanted:
            topic = item.named.topic
            if topic is None or item.leads_away or (topic.name, item.named.partition) not in known.current:
                break
        else:
            gateway.account.fetching_again(known, gateway.now_ms())
            return
    topics = ((item.named.topic, item) for item in wanted if not item.leads_away)
    offsets = {(topic.name, item.named.partition): item.fetch_offset for topic, item in topics if topic is not None}
    if wanted and all(item.leads_away for item in wanted):
        return
    gateway.account.fetching(connection.attribution, connection.host, client_id, offsets, gateway.now_ms())


def _account(call: Call, wanted: list[_Wanted]) -> None:
    parts = []
    for item in wanted:
        topic, offset = item.named.topic, item.fetch_offset
        if item.records and topic is not None:
            aborted = item.found.aborted_transactions if item.found is not None else None
            base_offset, last_offset, messages, *others = summarize(item.records, aborted or ())
            first_offset = base_offset if base_offset > offset else offset
            partition, size_bytes = item.named.partition, item.size_bytes
            parts.append((topic.name, partition, offset, first_offset, last_offset, messages, size_bytes, *others))
    if not parts:
        return
    connection, gateway, client_id = call.connection, call.gateway, call.header.client_id
    gateway.account.sent(connection.attribution, connection.host, client_id, parts, gateway.now_ms())

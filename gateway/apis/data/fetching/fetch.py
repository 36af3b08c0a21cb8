"""One Fetch, from the request to the response, with what attribution and quotas have to know of it.

As in Kafka, the charge for a response that exceeds a quota is taken back, and the client gets an empty one with the
throttle time. Other than in Kafka, a batch that alone exceeds all that a client may fetch in a window is sent once
the window is empty: its consumer would never get it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.batches import summarize
from muster.gateway.apis.data.fetching.plan import Plan, Wanted, envelope, plan_of
from muster.gateway.apis.data.fetching.request import Request, read_request
from muster.gateway.attribution.account import Part
from muster.gateway.fetch_sessions.cache import SessionError
from muster.gateway.fetch_sessions.contexts import FetchContext
from muster.gateway.fetch_sessions.session import INVALID_SESSION_ID
from muster.gateway.listener.api import Call, Reply
from muster.gateway.listener.limiting.charging import charge_time, client_of
from muster.gateway.listener.limiting.throttling import monotonic_ms
from muster.gateway.quotas.clients import ClientQuotas, Meter


class Fetch:
    """A request that is served."""

    def __init__(self, call: Call, request: Request, context: FetchContext) -> None:
        self.call = call
        self.request = request
        self.context = context
        self.plan: Plan = plan_of(call, request, context)
        self.max_bytes = min(request.max_bytes, call.gateway.config.fetch_max_bytes)
        if call.gateway.quotas is not None:
            self.max_bytes = _max_bytes(call.gateway.quotas, call, self.max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.wait_ms = max(request.max_wait_ms, 0)
        if self.plan.leads_away:  # as in Kafka: the consumer should fetch elsewhere
            self.min_bytes = self.wait_ms = 0
        self.deadline_s = asyncio.get_running_loop().time() + self.wait_ms / 1000

    @property
    def left_ms(self) -> int:
        """For how long it may wait."""
        return max(round((self.deadline_s - asyncio.get_running_loop().time()) * 1000), 0)

    def begin(self) -> None:
        """Which partitions a connection fetches is evidence of its group, whatever the result."""
        _fetching(self.call, self.plan)

    def cut(self) -> None:
        """Enforce max_bytes over all actors' responses; the first partition with records keeps what it has."""
        total = 0
        for item in self.plan.items:
            size_bytes = item.size_bytes
            if size_bytes and total and total + size_bytes > self.max_bytes:
                item.drop()
            else:
                total += size_bytes

    def reply(self, touched: Sequence[Wanted] | None = None) -> Reply:
        """Return the response with everything found. ``touched``: those of the plan, if they are known."""
        context, plan, call = self.context, self.plan, self.call
        if (error := context.begin_response()) is not ErrorCode.none:
            return call.reply(envelope(error, INVALID_SESSION_ID, []))
        if touched is None:
            touched = plan.touched
        if call.gateway.quotas is not None and self._must_wait(call.gateway.quotas, touched):
            return self._throttled()
        sent = touched
        if context.keeps_state:
            sent = [item for item in touched if context.includes(item.cached, item.result)]
        parts, has_files = _parts_of(sent)
        reply = call.reply(envelope(ErrorCode.none, context.session_id(), _by_topic(sent)))
        if context.session is not None:
            plan.settle(touched)
            context.session.plan = plan
        return Reply(reply.parts, partial(_sent, call, parts), reply.unwritten, has_files) if parts else reply

    def _must_wait(self, quotas: ClientQuotas, touched: Sequence[Wanted]) -> bool:
        """Whether what was found exceeds a quota. The session knows nothing of it yet."""
        context, call = self.context, self.call
        news = [item for item in touched if not context.keeps_state or context.would_include(item.cached, item.result)]

        def size_bytes() -> int:
            header, body = call.header, envelope(ErrorCode.none, INVALID_SESSION_ID, _by_topic(news))
            parts = codec.encode_response_parts(header.api_key, header.api_version, header.correlation_id, body)
            return sum(map(len, parts))

        return _must_wait(quotas, call, size_bytes, _parts_of(news)[0] if quotas.limits_groups else ())

    def _throttled(self) -> Reply:
        """Nothing of what was found: the client requests it again, and its session is as before."""
        session = self.context.session
        self.plan.forget()
        if session is not None:
            session.plan = self.plan
        session_id = INVALID_SESSION_ID if session is None else session.id
        return self.call.reply(envelope(ErrorCode.none, session_id, []))

    def error_body(self, error: ErrorCode) -> dict[str, Any]:
        """Return the response that has this error for every partition."""
        context, items = self.context, self.plan.items
        for item in items:
            item.fail(error)
            if context.keeps_state:
                context.includes(item.cached, item.result)
        return envelope(ErrorCode.none, context.session_id(), _by_topic(items))


def open_fetch(call: Call) -> Fetch:
    """Return the fetch of the call, begun once. Raises SessionError or UndecodableRequest."""
    if call.peeked is None:
        request = read_request(call)
        try:
            context = call.gateway.fetch_sessions.open(request.session, call.gateway.now_ms())
            call.peeked = Fetch(call, request, context)
        except SessionError as error:
            call.peeked = error.with_traceback(None)  # which has the call: a cycle
    if isinstance(call.peeked, SessionError):
        raise call.peeked.with_traceback(None)
    fetch: Fetch = call.peeked
    return fetch


def _by_topic(items: Iterable[Wanted]) -> list[dict[str, Any]]:
    topics: dict[str | UUID | None, dict[str, Any]] = {}
    for item in items:
        name, topic_id, _ = item.cached.key
        topic = topics.get(name or topic_id)
        if topic is None:
            topic = topics[name or topic_id] = {"topic": name, "topic_id": topic_id, "partitions": []}
        topic["partitions"].append(item.response())
    return [*topics.values()]


def _fetching(call: Call, plan: Plan) -> None:
    """Which partitions a connection fetches, and from where; a consumer that is led away fetches elsewhere."""
    connection, gateway, client_id = call.connection, call.gateway, call.header.client_id
    known = connection.attribution.fetches.get(client_id)
    if known is not None and (known.current is plan.offsets or known.current.keys() == plan.offsets.keys()):
        plan.offsets = known.current
        gateway.account.fetching_again(known, gateway.now_ms())
    elif not plan.items or plan.offsets or not plan.leads_away:
        gateway.account.fetching(connection.attribution, connection.host, client_id, plan.offsets, gateway.now_ms())


def _parts_of(items: Iterable[Wanted]) -> tuple[list[Part], bool]:
    """Return the records that a response carries, and whether any of them are in files."""
    parts: list[Part] = []
    has_files = False
    for item in items:
        topic, records = item.topic, item.records
        if records and topic is not None:
            has_files = has_files or bool(item.files)
            skipped = item.found.aborted_transactions if item.found is not None else None
            base_offset, last_offset, messages, batches, control, aborted = summarize(records, skipped or ())
            offset, size_bytes = item.fetch_offset, sum(map(len, records))
            first_offset = base_offset if base_offset > offset else offset
            counts = (messages, size_bytes, batches, control, aborted)
            parts.append((topic.name, item.index, offset, first_offset, last_offset, *counts))
    return parts, has_files


def _sent(call: Call, parts: Iterable[Part]) -> None:
    """Count them for the group that fetches: they are written to the socket now, not before."""
    connection, gateway, client_id = call.connection, call.gateway, call.header.client_id
    gateway.account.sent(connection.attribution, connection.host, client_id, parts, gateway.now_ms())


_MIN_BYTES = 1


def _max_bytes(quotas: ClientQuotas, call: Call, requested: int) -> int:
    """Return ``requested``, or less: the bytes that a client may fetch in a window."""
    meters = [client_of(quotas, call).fetch]
    if quotas.limits_groups:
        connection, gateway = call.connection, call.gateway
        group = gateway.account.group_of(
            connection.attribution, connection.host, call.header.client_id, gateway.now_ms()
        )
        meters.append(None if group is None else quotas.group(group))
    window_s = quotas.window.full_ms / 1000
    limits = [meter.quota * window_s for meter in meters if meter is not None]
    return max(_MIN_BYTES, int(min(requested, *limits))) if limits else requested


def _must_wait(quotas: ClientQuotas, call: Call, size: Callable[[], int], parts: Sequence[Part]) -> bool:
    """Charge a response of that many bytes, which carries these parts; whether an empty one has to be sent instead.

    ``call.throttle_ms`` is for how long its client has to pause.
    """
    now_ms, client = monotonic_ms(), client_of(quotas, call)
    pause_ms = charge_time(quotas, call, client, now_ms)
    size_bytes = 0
    if client.fetch is not None:
        size_bytes = size()
        was_unused = client.fetch.is_unused(now_ms)
        throttle_ms = client.fetch.charge(size_bytes, now_ms)
        if was_unused:
            call.pause(throttle_ms)
        else:
            pause_ms = max(pause_ms, throttle_ms)
    for meter, group_bytes in _groups(quotas, call, parts):
        was_unused = meter.is_unused(now_ms)
        throttle_ms = meter.charge(group_bytes, now_ms)
        meter.record(-group_bytes, now_ms)  # they are charged when they are attributed
        if was_unused:
            call.pause(throttle_ms)
        else:
            pause_ms = max(pause_ms, throttle_ms)
    if pause_ms and client.fetch is not None:
        client.fetch.record(-size_bytes, now_ms)
    call.pause(pause_ms)
    return pause_ms > 0


def _groups(quotas: ClientQuotas, call: Call, parts: Sequence[Part]) -> Iterator[tuple[Meter, int]]:
    """Yield the quotas of the groups that the parts are for, and their bytes."""
    if not parts or not quotas.limits_groups:
        return
    connection, gateway = call.connection, call.gateway
    found = gateway.account.bytes_by_group(
        connection.attribution, connection.host, call.header.client_id, parts, gateway.now_ms()
    )
    for group, size_bytes in found.items():
        meter = quotas.group(group)
        if meter is not None:
            yield meter, size_bytes

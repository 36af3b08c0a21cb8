"""One Fetch, from the request to the response."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.data.fetching import evidence
from muster.gateway.apis.data.fetching.limiting import max_bytes, must_wait
from muster.gateway.apis.data.fetching.plan import Plan, plan_of
from muster.gateway.apis.data.fetching.request import Request, read_request
from muster.gateway.apis.data.fetching.wanted import Wanted, envelope
from muster.gateway.apis.partitions import by_topic
from muster.gateway.fetch_sessions.cache import SessionError
from muster.gateway.fetch_sessions.contexts import FetchContext
from muster.gateway.fetch_sessions.session import INVALID_SESSION_ID
from muster.gateway.listener.api import Call, Reply
from muster.gateway.quotas.clients import ClientQuotas


class Fetch:
    """A request that is served."""

    def __init__(self, call: Call, request: Request, context: FetchContext) -> None:
        self.call = call
        self.request = request
        self.context = context
        self.plan: Plan = plan_of(call, request, context)
        self.max_bytes = min(request.max_bytes, call.gateway.config.fetch_max_bytes)
        if call.gateway.quotas is not None:
            self.max_bytes = max_bytes(call.gateway.quotas, call, self.max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        wait_ms = max(request.max_wait_ms, 0)
        if self.plan.leads_away:  # as in Kafka: the consumer should fetch elsewhere
            self.min_bytes = wait_ms = 0
        self.deadline_s = asyncio.get_running_loop().time() + wait_ms / 1000

    @property
    def left_ms(self) -> int:
        """For how long it may wait."""
        return max(round((self.deadline_s - asyncio.get_running_loop().time()) * 1000), 0)

    def begin(self) -> None:
        """Which partitions a connection fetches is evidence of its group, whatever the result."""
        evidence.fetching(self.call, self.plan)

    def cut(self) -> None:
        """Enforce max_bytes over all actors' responses; the first partition with records keeps what it has."""
        total = 0
        for item in self.plan.items:
            size_bytes = item.size_bytes
            if size_bytes and total and total + size_bytes > self.max_bytes:
                item.drop()
            else:
                total += size_bytes

    def reply(self) -> Reply:
        """Return the response with everything found."""
        context, plan, call = self.context, self.plan, self.call
        if (error := context.begin_response()) is not ErrorCode.none:
            return call.reply(envelope(error, INVALID_SESSION_ID, []))
        touched = plan.touched
        if call.gateway.quotas is not None and self._must_wait(call.gateway.quotas, touched):
            return self._throttled()
        if context.keeps_state:
            touched = [item for item in touched if context.includes(item.cached, item.result)]
        parts = evidence.parts_of(touched)
        reply = call.reply(envelope(ErrorCode.none, context.session_id(), _by_topic(touched)))
        has_files = any(item.files for item in touched)
        plan.settle()
        if context.session is not None:
            context.session.plan = plan
        return reply._replace(on_sent=partial(evidence.sent, call, parts), has_files=has_files) if parts else reply

    def _must_wait(self, quotas: ClientQuotas, touched: list[Wanted]) -> bool:
        """Whether what was found exceeds a quota. The session knows nothing of it yet."""
        context, call = self.context, self.call
        news = [item for item in touched if not context.keeps_state or context.would_include(item.cached, item.result)]

        def size_bytes() -> int:
            header, body = call.header, envelope(ErrorCode.none, INVALID_SESSION_ID, _by_topic(news))
            parts = codec.encode_response_parts(header.api_key, header.api_version, header.correlation_id, body)
            return sum(map(len, parts))

        return must_wait(quotas, call, size_bytes, evidence.parts_of(news) if quotas.limits_groups else ())

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
    results = {item.named.key: item for item in items}
    return [
        {
            "topic": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [results[partition.key].response() for partition in partitions],
        }
        for topic, partitions in by_topic(item.named for item in results.values())
    ]

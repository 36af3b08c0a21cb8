"""``POST /v1/topics/records``: appends one record, as a producer of the caller's would with ``acks=all``.

``{"topic", "partition": N or null, "key": VALUE, "value": VALUE, "headers": [[NAME, VALUE], ...]}``, where VALUE is
null, ``{"text": ...}`` or ``{"hex": ...}``. Without a partition, the key chooses it as in Kafka's own producer, and any
is taken without a key. The response is ``{"topic", "partition", "offset"}``.

It needs WRITE on the topic, and ``http.changes.enable=true``. The topic is not created. Produce is sent once: 503 says
whether the record may have been appended. Other errors are 404 for a topic or partition that does not exist, 403
without the right, 409 for what the topic does not take, such as a record that is too large.
"""

from __future__ import annotations

import random
from typing import Any

from aiohttp import web
from pydantic import Field, model_validator

from muster.actors.log.format.records import build_batch
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import NoResponse
from muster.gateway.client.kafka.brokers import RETRIABLE
from muster.gateway.client.kafka.refusals import check, text_of
from muster.gateway.client.kafka.requests import METADATA, of_topics
from muster.gateway.http.callers import changes, current_caller
from muster.gateway.http.groups import Body, Failed, as_json, body_of
from muster.gateway.http.kafka import KafkaRequests, requests_of, translated
from muster.gateway.listener.gateway import Gateway
from muster.placement.hashing import partition_of

PRODUCE = (0, 9)
_ALL = -1
_ACKNOWLEDGE_MS = 10_000
_NO_LEADER_EPOCH = -1
_UNSENT = ErrorCode.not_leader_or_follower
"""The gateway's error if the log's actor is down, and has not been sent the record."""


class Value(Body):
    """A key, value or header: text or bytes."""

    text: str | None = None
    hex: str | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Value:
        if (self.text is None) == (self.hex is None):
            raise ValueError("give one of text and hex")
        try:
            self.content()
        except ValueError as error:
            raise ValueError(f"{'hex' if self.text is None else 'text'} cannot be bytes: {error}") from None
        return self

    def content(self) -> bytes:
        """Return its bytes."""
        return bytes.fromhex(self.hex or "") if self.text is None else self.text.encode()


class NewRecord(Body):
    """The body of ``POST /v1/topics/records``."""

    topic: str = Field(min_length=1)
    partition: int | None = Field(None, ge=0, lt=1 << 31)
    key: Value | None = None
    value: Value | None = None
    headers: tuple[tuple[str, Value | None], ...] = ()

    def batch(self, now_ms: int) -> bytes:
        """Return the record as a batch."""
        key, value = (None if each is None else each.content() for each in (self.key, self.value))
        headers = tuple((name.encode(), None if each is None else each.content()) for name, each in self.headers)
        return bytes(build_batch([(key, value)], now_ms, 0, _NO_LEADER_EPOCH, headers=headers))


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the route of this module; the app has not been started yet."""

    async def produce(request: web.Request) -> dict[str, Any]:
        record = await body_of(request, NewRecord)
        changes(request, record.topic)
        with requests_of(gateway, current_caller()) as requests:
            done = await translated(_append(requests, record, gateway.now_ms()))
        changes(request, record.topic, f"partition {done['partition']}, offset {done['offset']}")
        return done

    app.router.add_post("/v1/topics/records", as_json(produce))


async def _append(requests: KafkaRequests, record: NewRecord, now_ms: int) -> dict[str, Any]:
    """Append the record. Raises Refused, NoResponse or Failed."""
    index = await _partition(requests, record)
    data = [{"index": index, "records": record.batch(now_ms)}]
    topics = [{"name": record.topic, "partition_data": data}]
    body = {"transactional_id": None, "acks": _ALL, "timeout": _ACKNOWLEDGE_MS, "topic_data": topics}
    try:
        response = await requests.send_once(*PRODUCE, body)
    except NoResponse as error:
        raise Failed(503, f"{error.message}; the record may have been appended") from error
    ((produced,),) = (each.partition_responses for each in response.responses)
    if produced.error_code in RETRIABLE:
        was_sent = "was not appended" if produced.error_code is _UNSENT else "may have been appended"
        raise Failed(503, f"{text_of(produced.error_code, produced.error_message)}; the record {was_sent}")
    check(produced, f"the record cannot be appended to partition {index} of topic {record.topic}")
    return {"topic": record.topic, "partition": index, "offset": produced.base_offset}


async def _partition(requests: KafkaRequests, record: NewRecord) -> int:
    """Return the partition of the record. Raises Refused, NoResponse, or Failed (404)."""
    response = await requests.send(*METADATA, of_topics([{"topic_id": None, "name": record.topic}]))
    (topic,) = response.topics
    check(topic, f"topic {record.topic}")
    count = len(topic.partitions)
    if record.partition is None:
        if record.key is None:
            return random.randrange(count)  # noqa: S311 - it protects nothing
        return partition_of(record.key.content(), count)
    if record.partition >= count:
        raise Failed(404, f"topic {record.topic} has no partition {record.partition}")
    return record.partition

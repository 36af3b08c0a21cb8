"""Sends messages to the partitions of one topic, in their order."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from muster.actors.log.format.records import Headers, build_batch
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli.client.gateways import RETRIABLE, Gateways, NoResponse
from muster.gateway.client.kafka.refusals import Refused, text_of
from muster.gateway.client.kafka.requests import count_partitions
from muster.placement.hashing import partition_of

PRODUCE = (0, 9)
_ALL = -1
_SEND_S, _ACKNOWLEDGE_MS, _PAUSE_S = 30.0, 10_000, 0.1
_TOO_LARGE = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)
_LATER = RETRIABLE | {ErrorCode.not_enough_replicas, ErrorCode.not_enough_replicas_after_append}

Message = tuple[bytes | None, bytes]
"""Key and value."""


class Producer:
    """Messages of one command. One request is in flight, so the messages of a partition keep their order.

    It has no producer id, for which there may be no right: after a lost connection, messages may be there twice.
    """

    def __init__(self, client: Gateways, topic: str, partition: int | None, headers: Headers) -> None:
        """``partition`` of all messages; None: by the key as in Kafka's own producer, or any."""
        self._client, self._topic, self._partition, self._headers = client, topic, partition, headers
        self._count = 0
        self.acknowledged = self.failed = 0
        self.error: str | None = None
        """Why the first of them failed, in words."""

    def send(self, messages: Sequence[Message]) -> None:
        """Return once each message is acknowledged or has failed."""
        before = self.acknowledged + self.failed
        try:
            self._count = self._count or count_partitions(self._client, self._topic)
            self._send({index: deque([batch]) for index, batch in self._by_partition(messages).items()})
        except (Refused, NoResponse) as error:
            self.failed = before + len(messages) - self.acknowledged
            self.error = self.error or error.message

    def _send(self, waiting: dict[int, deque[Sequence[Message]]]) -> None:
        """Send the batches of each partition, one after the other. Raises NoResponse."""
        deadline = time.monotonic() + _SEND_S
        while waiting:
            has_moved = False
            for result in self._produced({index: batches[0] for index, batches in waiting.items()}):
                batches, error = waiting[result.index], result.error_code
                if error in _LATER and time.monotonic() < deadline:
                    continue
                has_moved = True
                batch = batches.popleft()
                if error is ErrorCode.none:
                    self.acknowledged += len(batch)
                elif error in _TOO_LARGE and len(batch) > 1:
                    half = len(batch) // 2
                    batches.extendleft((batch[half:], batch[:half]))
                else:
                    self.failed += len(batch) + sum(map(len, batches))
                    self.error = self.error or text_of(error, result.error_message)
                    batches.clear()
            waiting = {index: batches for index, batches in waiting.items() if batches}
            if not has_moved:
                time.sleep(_PAUSE_S)

    def _by_partition(self, messages: Iterable[Message]) -> dict[int, list[Message]]:
        found: dict[int, list[Message]] = {}
        anywhere = random.randrange(self._count)  # noqa: S311 - it protects nothing
        for message in messages:
            key = message[0]
            if self._partition is not None:
                index = self._partition
            else:
                index = anywhere if key is None else partition_of(key, self._count)
            found.setdefault(index, []).append(message)
        return found

    def _produced(self, batches: dict[int, Sequence[Message]]) -> Iterable[Any]:
        """Send one batch to each partition, and return its results."""
        now_ms = time.time_ns() // 1_000_000
        data = [
            {"index": index, "records": bytes(build_batch(batch, now_ms, 0, -1, headers=self._headers))}
            for index, batch in batches.items()
        ]
        topics = [{"name": self._topic, "partition_data": data}]
        body = {"transactional_id": None, "acks": _ALL, "timeout": _ACKNOWLEDGE_MS, "topic_data": topics}
        response = self._client.request(*PRODUCE, body, retriable=(), timeout_s=_SEND_S)
        return (each for topic in response.responses for each in topic.partition_responses)

"""Records that could not be handled, in a topic of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.gateway.client.consuming.handling import Failure
from muster.gateway.client.errors import HandlerFailed, MusterError

_PREFIX = "dead_letter."
_TIMEOUTS = {-192, -185}
"""Codes _MSG_TIMED_OUT and _TIMED_OUT of librdkafka."""
_MAX_BYTES = 1_000_000_000
"""librdkafka's own limit for a record: that of the topic counts."""


class DeadLettersNotStored(MusterError):
    """The topic of dead letters was not reached in time (``delivery.timeout.ms``)."""


class DeadLetterTopic:
    """Writes to the topic with ``acks=all``. Not for several threads."""

    def __init__(self, topic: str, group: str, properties: Mapping[str, Any]) -> None:
        """``properties``: how a client of librdkafka reaches the cluster."""
        self._topic, self._group, self._properties = topic, group, properties
        self._producer: Any = None

    def write(self, failures: Sequence[Failure]) -> None:
        """Return once they are stored. Raises DeadLettersNotStored, or HandlerFailed if the topic refuses one."""
        producer = self._producer = self._producer or self._connected()
        errors: list[tuple[Failure, Any]] = []

        def delivered(of: Failure) -> Callable[[Any, Any], None]:
            return lambda error, _: errors.append((of, error)) if error is not None else None

        for each in failures:
            headers = [*(each.row["headers"] or []), *headers_of(each, self._group)]
            try:
                producer.produce(
                    self._topic, each.row["value"], each.row["key"], headers=headers, on_delivery=delivered(each)
                )
            except Exception as error:  # a KafkaException has its KafkaError as argument
                errors.append((each, error.args[0] if error.args else error))
            producer.flush()
        for failure, refusal in errors:
            text = f"{failure.place} cannot be stored in {self._topic}, the topic of dead letters: {refusal}"
            if getattr(refusal, "code", int)() in _TIMEOUTS:
                raise DeadLettersNotStored(text)
            raise HandlerFailed(f"{text} (it could not be handled: {failure.error})")

    def _connected(self) -> Any:
        from confluent_kafka import Producer

        settings = {"acks": "all", "enable.idempotence": True, "message.max.bytes": _MAX_BYTES, "linger.ms": 0}
        return Producer({**settings, **self._properties})


def headers_of(failure: Failure, group: str) -> list[tuple[str, bytes]]:
    """Return the headers that a dead letter has after its own: where it is from, and why it is one. All are text."""
    values = {
        "error": failure.error,
        "topic": failure.row["topic"],
        "partition": failure.row["partition"],
        "offset": failure.row["offset"],
        "timestamp": failure.row["timestamp"],
        "group": group,
        "attempts": failure.attempts,
    }
    return [(f"{_PREFIX}{name}", str(value).encode()) for name, value in values.items()]

"""Replays the flights into the topic with an unmodified, idempotent confluent-kafka producer, at a steady rate.

The runner's action at a mark must find records in flight, however long it takes: from each mark on, the rate is a
twentieth, until a SIGUSR1 for that mark.

Writes JSON lines: ``progress`` (delivered, failed) and ``done`` (the same, the bytes of the values, and when
acknowledgements arrived).
"""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Sequence

import pyarrow as pa
from confluent_kafka import KafkaError, Message, Producer

from examples.demo.arrivals import Arrivals
from examples.demo.dataset import flights
from examples.demo.member import write

_TURN_S = 0.05
_PROGRESS_INTERVAL_S = 0.5
_SLOWER = 20


class Schedule:
    """The number of records that are due."""

    def __init__(self, rate: float, marks: Sequence[int], now_s: float) -> None:
        """Begin a schedule. ``rate`` in records a second; ``marks`` in records, ascending."""
        self._rate = rate
        self._marks = marks
        self._left = 0
        """Marks passed so far."""
        self._due = 0.0
        self._at_s = now_s

    def leave_mark(self) -> None:
        """Return to the full rate until the next mark; may be called before this mark is reached."""
        self._left += 1

    def due(self, now_s: float) -> int:
        """Count the records that are due since the start."""
        more = (now_s - self._at_s) * self._rate
        self._at_s = now_s
        if self._left < len(self._marks):
            mark = self._marks[self._left]
            before = min(more, max(mark - self._due, 0))
            more = before + (more - before) / _SLOWER
        self._due += more
        return int(self._due)


class _Deliveries:
    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0
        self.arrivals = Arrivals()
        self._next = 0.0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered += 1
            partition, (_, timestamp_ms) = message.partition(), message.timestamp()
            assert partition is not None
            self.arrivals.add(partition, timestamp_ms / 1000, time.time())
        else:
            self.failed += 1

    def say(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PROGRESS_INTERVAL_S
            write({"type": "progress", "delivered": self.delivered, "failed": self.failed})


def _send(producer: Producer, topic: str, rows: pa.Table, deliveries: _Deliveries) -> None:
    for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=deliveries)
                break
            except BufferError:  # the queue is full: the brokers are slower than the producer
                producer.poll(_TURN_S)
                deliveries.say()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=int, required=True, help="records a second")
    parser.add_argument("--mark", type=float, action="append", default=[], help="share of the records, ascending")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # handled by the runner
    table = flights()
    schedule = Schedule(options.rate, [int(mark * table.num_rows) for mark in options.mark], time.monotonic())
    signal.signal(signal.SIGUSR1, lambda *_: schedule.leave_mark())
    producer = Producer({"bootstrap.servers": options.bootstrap, "enable.idempotence": True})
    deliveries = _Deliveries()
    sent = 0
    while sent < table.num_rows:
        due = schedule.due(time.monotonic())
        if due > sent:
            turn = table.slice(sent, min(due - sent, 5000))
            _send(producer, options.topic, turn, deliveries)
            sent += turn.num_rows
        producer.poll(_TURN_S)
        deliveries.say()
    while producer.flush(_TURN_S):
        deliveries.say()
    size = sum(chunk.nbytes for chunk in table["value"].chunks)
    counts = {"delivered": deliveries.delivered, "failed": deliveries.failed, "bytes": size}
    write({"type": "done", **counts, "arrived": deliveries.arrivals.to_json()})


if __name__ == "__main__":
    main()

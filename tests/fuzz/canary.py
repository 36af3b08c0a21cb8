"""A client that behaves, and measures how long it is served: a heartbeat, a Produce and a Fetch, again and again.

``python -m tests.fuzz.canary HOST PORT`` measures from one line of its input to the next, and prints a list of seconds:
the times of the requests of each, in ms, and what the host took.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import psutil

from muster.placement.view import Topic
from tests.fuzz.quotas import CANARY
from tests.fuzz.target import CANARY_TOPIC, METADATA
from tests.gateway.apis.test_data_apis import FETCH, PRODUCE, fetch_body, produce_body
from tests.gateway.group_client import Member, find
from tests.gateway.serving import Client
from tests.group.driver import subscription
from tests.log.support import client_batch

PAUSE_S = 0.01
MAX_STOLEN_PERCENT = 1.0
"""A second in which the host of a virtual machine took more of its processors measures the host."""


class Second(NamedTuple):
    """Measurements of about a second."""

    stolen_percent: float
    """Share of the machine's processors that others on the host took."""
    times: list[float]
    """In ms."""


class Quantiles(NamedTuple):
    """Milliseconds."""

    p50: float
    p99: float
    longest: float
    requests: int


class Clock:
    """Divides what is measured into seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: list[Second] = []
        self._begin()

    def _begin(self) -> None:
        self._times: list[float] = []
        self._began_s, self._before = time.monotonic(), psutil.cpu_times()

    def add(self, times: Sequence[float]) -> None:
        """Add the times of a round that ends now."""
        with self._lock:
            self._times.extend(times)
            if time.monotonic() - self._began_s >= 1:
                self._seconds.append(Second(self._stolen_percent(), self._times))
                self._begin()

    def take(self) -> list[Second]:
        """Return the seconds since the last call; the one that has begun is left out, unless it is the only one."""
        with self._lock:
            if self._times and not self._seconds:
                self._seconds.append(Second(self._stolen_percent(), self._times))
            taken, self._seconds = self._seconds, []
            self._begin()
            return taken

    def _stolen_percent(self) -> float:
        now = psutil.cpu_times()
        spent_s = sum(now) - sum(self._before)
        return float(100 * (now.steal - self._before.steal) / max(spent_s, 0.001))


class Canary:
    """One member of a group of its own."""

    def __init__(self, host: str, port: int) -> None:
        self._client = Client(port, CANARY, host=host)
        flags = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        wanted = [{"topic_id": None, "name": CANARY_TOPIC}]
        (found,) = self._client.exchange(METADATA, 12, {"topics": wanted, **flags}).topics
        self._topic = Topic(name=CANARY_TOPIC, topic_id=found.topic_id, partitions=len(found.partitions))
        self._member = Member(self._client, "canary", version=4)
        while self._member.join(metadata=subscription(CANARY_TOPIC)).error_code:  # Kafka reads it
            find(self._client, 4, "canary")  # Kafka creates the topic of offsets then
            time.sleep(0.1)
        self._member.sync({self._member.id: b""})
        self._offset = 0

    def round(self) -> list[float]:
        """Return the times of three requests, in ms. Raises AssertionError if one is refused."""
        times = []
        for request in (self._heartbeat, self._produce, self._fetch):
            began_s = time.perf_counter()
            request()
            times.append(1000 * (time.perf_counter() - began_s))
        return times

    def leave(self) -> None:
        """Leave the group, so that the next canary need not wait for this one."""
        self._member.leave()

    def _heartbeat(self) -> None:
        error = self._member.heartbeat()
        assert not error, error

    def _produce(self) -> None:
        body = produce_body((self._topic, 0, client_batch(1, first_ms=int(time.time() * 1000))))
        (topic,) = self._client.exchange(PRODUCE, 9, body).responses
        (partition,) = topic.partition_responses
        assert not partition.error_code, partition
        self._offset = partition.base_offset

    def _fetch(self) -> None:
        (topic,) = self._client.exchange(FETCH, 12, fetch_body((self._topic, 0, self._offset))).responses
        (partition,) = topic.partitions
        assert not partition.error_code, partition
        assert partition.records


def seconds(report: list[Any]) -> list[Second]:
    """Return the measurements in a canary's output."""
    return [Second(*each) for each in report]


def undisturbed(measured: Sequence[Second]) -> list[Second]:
    """Return the seconds in which the host took little."""
    return [second for second in measured if second.stolen_percent <= MAX_STOLEN_PERCENT]


def mean_stolen(measured: Sequence[Second]) -> float:
    """In percent."""
    return statistics.fmean(second.stolen_percent for second in measured) if measured else 0.0


def quantiles(measured: Sequence[Second]) -> Quantiles:
    """Return the quantiles of all requests of these seconds."""
    times = [each for second in measured for each in second.times]
    if not times:  # no request has been served since the last report
        return Quantiles(0.0, 0.0, 0.0, 0)
    ordered = sorted(times)
    return Quantiles(ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1], len(ordered))


def main() -> None:
    canary = Canary(sys.argv[1], int(sys.argv[2]))
    for _ in range(50):
        canary.round()
    clock = Clock()

    def report() -> None:
        for _ in sys.stdin:
            print(json.dumps(clock.take()), flush=True)

    reporting = threading.Thread(target=report, daemon=True)
    reporting.start()
    print("[]", flush=True)
    while reporting.is_alive():  # until the input ends
        clock.add(canary.round())
        time.sleep(PAUSE_S)
    canary.leave()


if __name__ == "__main__":
    main()

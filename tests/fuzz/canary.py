"""A client that behaves, and measures how long it is served: a heartbeat, a Produce and a Fetch, again and again.

``python -m tests.fuzz.canary HOST PORT`` measures from one line of its input to the next, and prints the times in ms.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import NamedTuple

from muster.placement.view import Topic
from tests.fuzz.quotas import CANARY
from tests.fuzz.target import CANARY_TOPIC, METADATA
from tests.gateway.apis.test_data_apis import FETCH, PRODUCE, fetch_body, produce_body
from tests.gateway.group_client import Member, find
from tests.gateway.serving import Client
from tests.group.driver import subscription
from tests.log.support import client_batch

PAUSE_S = 0.01


class Quantiles(NamedTuple):
    """Milliseconds."""

    p50: float
    p99: float
    longest: float
    requests: int


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
        """The times of three requests, in ms. AssertionError if one is refused."""
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


def quantiles(times: list[float]) -> Quantiles:
    if not times:  # no request has been served since the last report
        return Quantiles(0.0, 0.0, 0.0, 0)
    ordered = sorted(times)
    return Quantiles(ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1], len(ordered))


def main() -> None:
    canary = Canary(sys.argv[1], int(sys.argv[2]))
    times: list[float] = []

    def report() -> None:
        for _ in sys.stdin:
            taken = times.copy()
            times.clear()
            print(json.dumps([round(each, 3) for each in taken]), flush=True)

    reporting = threading.Thread(target=report, daemon=True)
    reporting.start()
    for _ in range(50):
        canary.round()
    print("[]", flush=True)
    while reporting.is_alive():  # until the input ends
        times.extend(canary.round())
        time.sleep(PAUSE_S)
    canary.leave()


if __name__ == "__main__":
    main()

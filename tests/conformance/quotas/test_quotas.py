"""Quotas of Kafka are as recorded, and both servers throttle by the same clock."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.gateway.quotas.rate import Rate, Window
from muster.placement.zookeeper.client import connect
from tests.conformance.artifacts import Kafka
from tests.conformance.authorization.broker import authorizing_broker
from tests.gateway.quotas.cases import played, recorded
from tests.gateway.quotas.test_recorded import PROPERTIES
from tests.gateway.quotas.world import API_VERSIONS, USERS, World, batch, size_of, throttle_ms
from tests.gateway.serving import serving

WINDOW = Window(11, 1_000)
SEQUENCE_S = (0.0, 0.3, 0.9, 1.6, 2.7)
LATE_MS = 1_000
"""A server that is not served by the processor for so long is still right."""


@pytest.fixture(scope="module", params=["muster", "kafka"])
def world(request: pytest.FixtureRequest, release: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a gateway without Ray, and Apache Kafka."""
    if request.param == "kafka":
        with authorizing_broker(release) as broker, World(broker.bootstrap_servers, follows_later=True) as found:
            found.prepare()
            yield found
        return
    storage = tmp_path_factory.mktemp("storage")
    with EmbeddedZooKeeper.start(tmp_path_factory.mktemp("zookeeper")) as zookeeper:
        zk = connect(zookeeper.hosts, timeout_s=10)
        with serving(zk, storage, PROPERTIES(storage), with_actors=True) as served, World(served.reachable()) as found:
            found.prepare()
            yield found
        zk.shut()


def now_ms() -> float:
    return time.monotonic() * 1000


def test_throttle_times_are_those_of_kafkas_rate(world: World) -> None:
    """A client sends more and more; a response was charged between the request and its arrival."""
    user, records = USERS[292], batch(30)
    world.limit(([("user", user)], {"producer_byte_rate": size_of(records) // 10}))
    sent: list[tuple[float, float, int]] = []
    begun_ms = now_ms()
    for at_s in SEQUENCE_S:
        with world.client(user, "") as client:
            time.sleep(max(0.0, at_s - (now_ms() - begun_ms) / 1000))
            before_ms = now_ms()
            response = world.produce(client, records)
            sent.append((before_ms, now_ms(), throttle_ms(response) or 0))
    quota = size_of(records) // 10
    first_ms = sent[0][:2]
    for number, (before_ms, after_ms, throttle) in enumerate(sent):
        elapsed_ms = range(int(before_ms - first_ms[1]), int(after_ms - first_ms[0]) + 2)
        possible = [_throttle_ms(number, at_ms, size_of(records), quota) for at_ms in elapsed_ms]
        assert min(possible) <= throttle <= max(possible), (number, throttle, min(possible), max(possible))
    assert sent[-1][2] > 30_000


def _throttle_ms(earlier: int, at_ms: int, size: int, quota: int) -> int:
    """Muster's computation: so many requests at 0, and one at that time."""
    rate = Rate(WINDOW)
    rate.record(earlier * size, 0)
    return rate.charge(size, quota, max(at_ms, 0))


@pytest.mark.parametrize("wanted_ms", [300, 1_500])
def test_the_next_response_comes_when_the_throttle_time_is_over(world: World, wanted_ms: int) -> None:
    user, records = USERS[293 + (wanted_ms > 1_000)], batch(300)
    size = size_of(records)
    quota = size / (10 + wanted_ms / 1_000)
    world.limit(([("user", user)], {"producer_byte_rate": int(quota)}))
    with world.client(user, "") as client, world.client(user, "") as other:
        response = world.produce(client, records)
        answered_ms, throttle = now_ms(), throttle_ms(response) or 0
        assert wanted_ms <= throttle < wanted_ms + 100
        client.request(API_VERSIONS, 0, {})
        other.exchange(API_VERSIONS, 0, {})
        is_other_muted = now_ms() - answered_ms >= throttle
        client.response(API_VERSIONS, 0)
        waited_ms = now_ms() - answered_ms
        assert throttle - 50 <= waited_ms <= throttle + LATE_MS
        assert not is_other_muted


@pytest.mark.parametrize("world", ["kafka"], indirect=True)
def test_kafka_responds_as_recorded(world: World) -> None:
    """The recording that tests/gateway/quotas/test_recorded.py compares Muster with stays true."""
    expected, found = recorded(), played(world)
    assert {part: found[part] for part in expected if found[part] != expected[part]} == {}
    assert found.keys() == expected.keys()

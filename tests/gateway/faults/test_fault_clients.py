"""How real clients react to each fault: a producer that retries, a consumer that commits, one that fetches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import RequestTimedOutError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer

from muster.placement.view import Topic
from pytest_muster import FaultClient
from tests.gateway import fault_client
from tests.gateway.apis.test_data_apis import list_offsets
from tests.gateway.fault_client import committed, new_group
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Serving

PROPERTIES = {**fault_client.PROPERTIES, "group.min.session.timeout.ms": "500"}
TIMEOUT_MS, LONG_MS = 1_500, 60_000
"""After this time, the clients here give up a request and retry: a short one where no response comes."""


@pytest.fixture(scope="module")
def bootstrap(full: Serving) -> str:
    return full.reachable()


@pytest.fixture
def faults(full: Serving) -> Iterator[FaultClient]:
    client = FaultClient(full.http_url)
    yield client
    client.clear()


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    return full.create(fresh("t"))


def librdkafka(bootstrap: str, topic: str, timeout_ms: int = LONG_MS) -> None:
    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": False,
            "socket.timeout.ms": timeout_ms,
            "request.timeout.ms": timeout_ms,
        }
    )
    producer.produce(topic, b"the only one", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0
    assert failed == [None]


def kafka_python(bootstrap: str, topic: str, timeout_ms: int = LONG_MS) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=False, request_timeout_ms=timeout_ms, acks="all", retries=5
    )
    try:
        producer.send(topic, b"the only one").get(60)
    finally:
        producer.close()


def aiokafka(bootstrap: str, topic: str, timeout_ms: int = LONG_MS) -> None:
    async def produce() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", request_timeout_ms=timeout_ms, enable_idempotence=False
        ) as producer:
            await producer.send_and_wait(topic, b"the only one")

    asyncio.run(produce())


PRODUCERS = (librdkafka, kafka_python, aiokafka)
NOT_LEADER = {"error": "NOT_LEADER_OR_FOLLOWER"}


@pytest.mark.parametrize(
    ("fault", "copies"),
    [
        ({"action": "error", **NOT_LEADER}, 1),
        ({"action": "error", "phase": "after", **NOT_LEADER}, 2),
        ({"action": "close"}, 1),
        ({"action": "close", "phase": "after"}, 2),
        ({"action": "drop", "phase": "after"}, 2),
        ({"action": "no-answer"}, 1),
        ({"action": "no-answer", "phase": "after"}, 2),
        ({"action": "delay", "delay_ms": 100}, 1),
    ],
    ids=lambda value: (
        "-".join(value[key] for key in ("action", "phase") if key in value) if isinstance(value, dict) else ""
    ),
)
@pytest.mark.parametrize("produce", PRODUCERS)
def test_a_producer_that_retries(
    full: Serving,
    bootstrap: str,
    faults: FaultClient,
    topic: Topic,
    produce: Callable[[str, str, int], None],
    fault: dict[str, Any],
    copies: int,
) -> None:
    """Without idempotence the record is there twice if the first request took effect.

    aiokafka retries for the time that one request may take: not at all without a response. It reports that.
    """
    faults.inject({"api": "Produce", "topic": topic.name, "when": "once", **fault})
    timeout_ms = TIMEOUT_MS if fault["action"] in ("drop", "no-answer") else LONG_MS
    if produce is aiokafka and timeout_ms == TIMEOUT_MS:
        copies -= 1
        with pytest.raises(RequestTimedOutError):
            produce(bootstrap, topic.name, timeout_ms)
    else:
        produce(bootstrap, topic.name, timeout_ms)
    assert faults.faults()[0]["hits"] == 1
    (found,) = list_offsets(full.client, 5, topic.name, (0, -1))
    assert found.offset == copies


def test_a_commit_that_took_effect_and_is_refused(
    full: Serving, bootstrap: str, faults: FaultClient, topic: Topic, fresh: Fresh
) -> None:
    group = new_group(full, fresh)
    faults.inject("error", api="OffsetCommit", group=group, phase="after", error="GROUP_AUTHORIZATION_FAILED")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        with pytest.raises(KafkaException) as failed:
            consumer.commit(offsets=[TopicPartition(topic.name, 0, 5)], asynchronous=False)
    finally:
        consumer.close()
    assert failed.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert committed(full, group, topic) == 5


def test_a_consumer_that_must_rejoin(
    full: Serving, bootstrap: str, faults: FaultClient, topic: Topic, fresh: Fresh
) -> None:
    """UNKNOWN_MEMBER_ID to one heartbeat: it rejoins and continues from its position."""
    group = new_group(full, fresh)

    async def consume() -> list[bytes | None]:
        consumer = AIOKafkaConsumer(
            topic.name,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            session_timeout_ms=10_000,
        )
        async with consumer, asyncio.timeout(60):
            await asyncio.to_thread(librdkafka, bootstrap, topic.name)
            first = await consumer.getone()
            await consumer.commit()
            before = consumer._coordinator.generation
            await asyncio.to_thread(
                faults.inject, "error", api="Heartbeat", group=group, error="UNKNOWN_MEMBER_ID", when="once"
            )
            faults.inject("close", api="Fetch", topic=topic.name, when="once")
            while consumer._coordinator.generation == before:  # noqa: ASYNC110 - the client has no event for it
                await asyncio.sleep(0.05)
            await asyncio.to_thread(librdkafka, bootstrap, topic.name)
            return [first.value, (await consumer.getone()).value]

    assert asyncio.run(consume()) == [b"the only one"] * 2
    assert [one["hits"] for one in faults.faults()] == [1, 1]

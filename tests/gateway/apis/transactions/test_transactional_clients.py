"""Real transactional producers: each fails for good with its first request, and the log gives the reason, once each.

Java's is in tests/conformance/test_transactions.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from muster.gateway.apis.transactions import NOT_SERVED
from tests.gateway.serving import Serving

RETRIES_S = 60.0
"""How long each would retry if it considered the error transient."""


@pytest.fixture(scope="module")
def bootstrap(full: Serving) -> str:
    return full.reachable()


def librdkafka(bootstrap: str, client_id: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": client_id, "transactional.id": "t"})
    with pytest.raises(KafkaException) as failed:
        producer.init_transactions(RETRIES_S)
    error: KafkaError = failed.value.args[0]
    assert (error.fatal(), error.retriable()) == (True, False)
    assert NOT_SERVED in error.str()


def aiokafka(bootstrap: str, client_id: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, client_id=client_id, transactional_id="t")
        try:
            with pytest.raises(TransactionalIdAuthorizationFailed):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(run())


def kafka_python(bootstrap: str, client_id: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=client_id, transactional_id="t")
    try:
        with pytest.raises(KafkaPythonError, match="UnsupportedVersion"):
            producer.init_transactions()
    finally:
        producer.close(0)


@pytest.mark.parametrize("client", [librdkafka, aiokafka, kafka_python])
def test_it_fails_at_once_and_the_log_says_why(
    full: Serving, bootstrap: str, caplog: pytest.LogCaptureFixture, client: Callable[[str, str], None]
) -> None:
    for _ in range(2):
        client(bootstrap, client.__name__)
    (line,) = [line for line in caplog.messages if NOT_SERVED in line]
    assert line.startswith(f"client {client.__name__!r} of 127.0.0.1:")
    assert "is refused with transactional.id 't'" in line

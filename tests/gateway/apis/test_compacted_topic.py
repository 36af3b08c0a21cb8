"""Topics through a gateway while their logs are repeatedly cleaned and shortened."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Producer

from tests.gateway.apis.test_data_apis import list_offsets, produce
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

PROPERTIES = {
    "log.cleaner.backoff.ms": "10",
    "log.retention.check.interval.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "group.initial.rebalance.delay.ms": "0",
}
KEYS, ROUNDS = 20, 25
END = KEYS * ROUNDS

Fresh = Callable[[str], str]
Row = tuple[int, bytes | None, bytes | None]


def poll(consumer: Consumer) -> list[Row]:
    """Return the records: offset, key and value."""
    found: list[Row] = []
    for message in consumer.consume(500, timeout=0.05):
        assert message.error() is None
        found.append((message.offset() or 0, message.key(), message.value()))
    return found


def read_to_end(consumer: Consumer, read: list[Row]) -> None:
    while not read or read[-1][0] < END - 1:
        read += poll(consumer)
    consumer.close()


def test_the_last_value_of_each_key_is_read_while_the_log_is_cleaned(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("compacted"), cleanup_policy="compact", segment_bytes="4000")
    last = {b"%d" % key: b"%d" % (ROUNDS - 1) for key in range(KEYS)}
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    assert full.actors is not None
    directory = full.actors.storage / "logs" / f"{topic.name}-0"
    with reachable(full) as bootstrap:
        servers = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, "batch.size": 500}
        )
        consumer = Consumer({**servers, "group.id": fresh("group")})
        consumer.subscribe([topic.name])
        read: list[Row] = []
        for number in range(ROUNDS):
            for key in range(KEYS):
                producer.produce(topic.name, key=b"%d" % key, value=b"%d" % number, on_delivery=delivered)
            producer.flush(30)
            read += poll(consumer)
        assert not failed
        eventually(lambda: list(directory.glob("*.cleaned.log")), "the log is cleaned")
        read_to_end(consumer, read)
        late: list[Row] = []
        consumer = Consumer({**servers, "group.id": fresh("group")})
        consumer.subscribe([topic.name])
        read_to_end(consumer, late)
    for rows in (read, late):
        offsets = [offset for offset, _, _ in rows]
        assert offsets == sorted(set(offsets))
        assert all(int(value or b"") * KEYS + int(key or b"") == offset for offset, key, value in rows)
        assert {key: value for _, key, value in rows} == last
    assert len(late) < END // 2


def test_records_that_are_too_old_go_by_themselves(full: Serving, fresh: Fresh) -> None:
    """The client's records are years old. The only requests are for the start of the log."""
    kept, old = full.create(fresh("kept"), retention_ms="-1"), full.create(fresh("old"), retention_ms="60000")
    for topic in (kept, old):
        produce(full.client, (topic, 0, client_batch(5)))

    def earliest(topic: str) -> int:
        return int(list_offsets(full.client, 9, topic, (0, -2))[0].offset)

    eventually(lambda: earliest(old.name) == 5, "the log starts behind the old records")
    assert earliest(kept.name) == 0
    [result] = produce(full.client, (old, 0, client_batch(1)))
    assert (result.base_offset, result.log_start_offset) == (5, 5)


def test_librdkafka_says_which_records_are_invalid(full: Serving, fresh: Fresh) -> None:
    """KIP-467: ten of a hundred, all of one batch, for which the others are refused, too."""
    topic = full.create(fresh("keyed"), cleanup_policy="compact")
    failed: dict[int, KafkaError] = {}
    with reachable(full) as bootstrap:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 60_000, "batch.num.messages": 100})
        for number in range(100):
            producer.produce(
                topic.name,
                key=None if number % 10 == 3 else b"key",
                value=b"value",
                on_delivery=lambda error, _, number=number: failed.update({number: error}),
            )
        producer.flush(30)
    assert {number: error.code() for number, error in failed.items()} == {
        number: KafkaError.INVALID_RECORD if number % 10 == 3 else KafkaError._INVALID_DIFFERENT_RECORD
        for number in range(100)
    }

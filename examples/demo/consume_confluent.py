"""A member that consumes with confluent-kafka."""

from __future__ import annotations

from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from examples.demo.member import POLL_S, Member, options


def main() -> None:
    what = options()
    member = Member()

    def committed(error: KafkaError | None, _: list[TopicPartition]) -> None:
        if error is None:
            member.committed()

    consumer = Consumer(
        {
            "bootstrap.servers": what.bootstrap,
            "group.id": what.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "on_commit": committed,
        }
    )

    def commit_now() -> None:
        with suppress(KafkaException):  # nothing to commit, or the group moved on: others continue from before
            consumer.commit(asynchronous=False)

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        commit_now()

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        member.assigned(each.partition for each in partitions)

    consumer.subscribe([what.topic], on_assign=assigned, on_revoke=revoked)
    while not member.stopping:
        for message in consumer.consume(500, POLL_S):
            if message.error() is not None:
                continue  # librdkafka retries by itself
            partition, offset, value = message.partition(), message.offset(), message.value()
            _, timestamp_ms = message.timestamp()
            assert partition is not None
            assert offset is not None
            assert value is not None
            member.got(partition, offset, value, timestamp_ms)
        if member.commit_is_due():
            with suppress(KafkaException):
                consumer.commit(asynchronous=True)
    commit_now()
    consumer.close()
    member.done()


if __name__ == "__main__":
    main()

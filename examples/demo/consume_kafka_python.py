"""A member that consumes with kafka-python."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from examples.demo.member import POLL_S, Member, options


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Listener that kafka-python calls in its I/O thread, which must not block: so it does not commit revoked
    partitions."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        pass

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.assigned(each.partition for each in assigned)


def main() -> None:
    what = options()
    member = Member()
    consumer = KafkaConsumer(
        bootstrap_servers=what.bootstrap.split(","),
        group_id=what.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )

    def committed(_: object, response: object) -> None:
        if not isinstance(response, Exception):
            member.committed()

    consumer.subscribe([what.topic], listener=_Listener(member))
    while not member.stopping:
        for partition, records in consumer.poll(timeout_ms=int(POLL_S * 1000)).items():
            for record in records:
                member.got(partition.partition, record.offset, record.value, record.timestamp)
        if member.commit_is_due():
            consumer.commit_async(callback=committed)
    with suppress(KafkaError):
        consumer.commit()
    consumer.close()
    member.done()


if __name__ == "__main__":
    main()

"""A member that consumes with aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from examples.demo.member import POLL_S, Member, Options, options


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, consumer: AIOKafkaConsumer, member: Member) -> None:
        self._consumer = consumer
        self._member = member

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        if revoked:
            with suppress(KafkaError):  # the group moved on: others continue from the last commit
                await self._consumer.commit()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.assigned(each.partition for each in assigned)


async def consume(what: Options, member: Member) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=what.bootstrap,
        group_id=what.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([what.topic], listener=_Listener(consumer, member))
    await consumer.start()
    try:
        while not member.stopping:
            for partition, records in (await consumer.getmany(timeout_ms=int(POLL_S * 1000))).items():
                for record in records:
                    member.got(partition.partition, record.offset, record.value, record.timestamp)
            if member.commit_is_due():
                with suppress(KafkaError):
                    await consumer.commit()
                    member.committed()
        with suppress(KafkaError):
            await consumer.commit()
    finally:
        await consumer.stop()


def main() -> None:
    member = Member()
    asyncio.run(consume(options(), member))
    member.done()


if __name__ == "__main__":
    main()

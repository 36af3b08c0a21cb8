"""kafkajs in a group: join, leave, commit and resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.artifacts import KafkaJs
from tests.conformance.clients import KafkaJsMember, wait_until
from tests.conformance.topics import committed, create_topic, fill, now_ms
from tests.muster_process import Muster

PARTITIONS = 4
EACH = 25


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_members_share_rebalance_and_resume(
    muster: Muster, installed_kafkajs: KafkaJs, fresh: Callable[[str], str], running: ExitStack
) -> None:
    topic = fresh("topic")
    create_topic(muster.bootstrap, topic, PARTITIONS)
    everything = {(topic, partition) for partition in range(PARTITIONS)}

    def member(name: str) -> KafkaJsMember:
        started = KafkaJsMember(installed_kafkajs, muster.bootstrap, name, topic=topic, group=topic)
        running.enter_context(started)
        return started

    def fill_all() -> None:
        for partition in range(PARTITIONS):
            fill(muster.bootstrap, topic, partition, [now_ms()] * EACH)

    def await_commit(offset: int, *members: KafkaJsMember) -> None:
        def all_reported() -> bool:
            reported = {
                (topic, event["partition"])
                for member in members
                for event in member.named("committed")
                if event["offset"] == offset
            }
            return reported == everything

        wait_until(all_reported, f"offsets {offset} are committed", *members)
        assert committed(muster.bootstrap, topic) == dict.fromkeys(everything, offset)

    first = member("first")
    wait_until(lambda: first.assigned() == everything, "the first has everything", first)
    second = member("second")
    wait_until(
        lambda: (
            len(first.assigned()) == len(second.assigned()) == 2 and first.assigned() | second.assigned() == everything
        ),
        "both share",
        first,
        second,
    )
    fill_all()
    await_commit(EACH, first, second)
    assert len(first.values()) == len(second.values()) == 2 * EACH

    assert second.stop() == 0, second
    wait_until(lambda: first.assigned() == everything, "the first has everything again", first)
    fill_all()
    await_commit(2 * EACH, first)
    assert first.stop() == 0, first
    assert len(first.values()) == 2 * EACH + PARTITIONS * EACH, "nothing twice"

    fill_all()
    third = member("third")
    await_commit(3 * EACH, third)
    assert len(third.values()) == PARTITIONS * EACH, "it continues at the committed offsets"
    assert third.stop() == 0, third

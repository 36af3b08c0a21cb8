"""``rebalance.events.topic``, with real coordinators, logs and a consumer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from muster.actors.offsets.history.publishing import progress_file
from muster.actors.runtime.process import now_ms
from muster.placement.hashing import partition_of
from tests.gateway.group_client import Member
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Serving
from tests.tables.rebalances import entry

TOPIC, PARTITIONS, LARGEST_BYTES = "rebalance-events", 2, 40_000
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "metrics.rebalances.flush.ms": "3600000",
    "rebalance.events.topic": TOPIC,
}
MANY = 150
"""More of one group than are kept in memory."""


class Sent(NamedTuple):
    partition: int
    key: str
    values: dict[str, Any]
    ms: int
    headers: dict[str, bytes]


class Records:
    """What the topic has, from its beginning."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        self.found: list[Sent] = []

    def until(self, group: str, *numbers: int) -> list[Sent]:
        """Wait for these entries of the group. Returns all of it so far."""
        while not {*numbers} <= {each.values["number"] for each in self.of(group)}:
            message: Any = self._consumer.poll(60)
            assert message is not None, f"{numbers} of {group} are not there: {self.of(group)}"
            assert message.error() is None, message.error()
            key, value = message.key().decode(), json.loads(message.value())
            self.found.append(
                Sent(message.partition(), key, value, message.timestamp()[1], dict(message.headers() or ()))
            )
        return self.of(group)

    def of(self, group: str) -> list[Sent]:
        return [each for each in self.found if each.key == group]

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def records(full: Serving) -> Iterator[Records]:
    with reachable(full) as bootstrap:
        reader = Records(bootstrap)
        yield reader
        reader.close()


def keep(full: Serving, partition: int, group: str, *numbers: int, **changes: Any) -> None:
    async def kept() -> None:
        assert full.actors is not None
        history = full.actors.histories[partition]
        for number in numbers:
            values = {"offsets_partition": partition, "epoch": history._core.epoch, "group": group, **changes}
            history.keep(replace(entry(number), ended_ms=now_ms(), **values))

    full.run(kept())


def ready(full: Serving, partition: int) -> None:
    assert full.run(full.gateway.coordinator_ready(partition, 30))


@pytest.fixture(scope="module")
def held_up(full: Serving) -> None:
    """Have rebalances end before the topic exists, then create it."""
    for partition in range(3):
        ready(full, partition)
    keep(full, 0, "many", *range(1, MANY + 1))
    keep(full, 0, "few", 1, 2)
    keep(full, 1, "other", 1)
    with full.connect("reader") as client:
        member = Member(client, "real")
        member.join()
        member.sync({member.id: b""})
        member.leave()
    full.create(TOPIC, PARTITIONS, max_message_bytes=str(LARGEST_BYTES))


@pytest.mark.usefixtures("held_up")
def test_what_ended_before_the_topic_existed_comes_too(records: Records) -> None:
    """Though most of it is no longer in memory."""
    assert {each.values["number"] for each in records.until("many", *range(1, MANY + 1))} == {*range(1, MANY + 1)}
    assert [each.values["number"] for each in records.until("few", 1, 2)][:2] == [1, 2]
    (sent,) = records.until("other", 1)
    expected = replace(entry(1), group="other", offsets_partition=1, epoch=sent.values["epoch"], ended_ms=sent.ms)
    assert sent.values == expected.to_json()
    assert sent.partition == partition_of(b"other", PARTITIONS)
    assert sent.headers == {"offsets_partition": b"1", "epoch": str(sent.values["epoch"]).encode(), "number": b"1"}


@pytest.mark.usefixtures("held_up")
def test_a_real_rebalance_waits_for_no_record_and_is_one(full: Serving, records: Records) -> None:
    status, text = full.http("/v1/groups/history?group=real")
    assert status == 200
    entries = json.loads(text)["entries"]
    sent = records.until("real", *(each["number"] for each in entries))
    assert [each.values for each in sent] == entries[::-1]


@pytest.mark.usefixtures("held_up")
def test_one_that_is_too_large_is_left_out(full: Serving, records: Records, caplog: pytest.LogCaptureFixture) -> None:
    keep(full, 2, "large", 1, reason="x" * LARGEST_BYTES)
    keep(full, 2, "large", 2)
    assert [each.values["number"] for each in records.until("large", 2)] == [2]
    assert f"a rebalance is not written to topic {TOPIC}: message_too_large" in caplog.text


@pytest.mark.usefixtures("held_up")
def test_the_next_coordinator_sends_what_a_killed_one_has_not(full: Serving, records: Records) -> None:
    keep(full, 1, "before", 1)
    records.until("before", 1)
    killed(full, 1, lambda: keep(full, 1, "unsent", 2, 3))
    keep(full, 1, "unsent", 4)
    assert sorted({each.values["number"] for each in records.until("unsent", 2, 3, 4)}) == [2, 3, 4]
    epochs = {each.values["number"]: each.values["epoch"] for each in records.of("unsent")}
    assert epochs[2] == epochs[3] < epochs[4]


@pytest.mark.usefixtures("held_up")
def test_a_coordinator_that_stops_sends_all_and_the_next_nothing_twice(full: Serving, records: Records) -> None:
    assert full.actors is not None
    keep(full, 2, "stopped", 1)
    actors = full.actors

    async def hand_over() -> None:
        await actors.offsets[2].stop()
        await actors.histories[2].close()
        full.controller.offsets[2] = await actors.start_offsets(2)

    full.run(hand_over())
    assert json.loads(progress_file(actors.storage / "metrics", 2).read_text())["topic"] == TOPIC
    full.follow(full.controller.view())
    ready(full, 2)
    keep(full, 2, "stopped", 2)
    assert {each.values["number"] for each in records.until("stopped", 2)} == {1, 2}


@pytest.mark.parametrize("content", ["", "{}", '{"topic": 1}', '{"topic": "rebalance-events", "epoch": null}', "\xff"])
@pytest.mark.usefixtures("held_up")
def test_progress_that_cannot_be_read_stops_nothing(full: Serving, records: Records, content: str) -> None:
    assert full.actors is not None
    file = progress_file(full.actors.storage / "metrics", 0)
    killed(full, 0, lambda: file.write_text(content, encoding="latin-1"))
    keep(full, 0, f"new {content}", 9)
    records.until(f"new {content}", 9)


def killed(full: Serving, partition: int, meanwhile: Any) -> None:
    """Restart the coordinator as after SIGKILL; ``meanwhile`` is called when it sends no more."""
    actors = full.actors
    assert actors is not None
    core, dead = actors.offsets[partition], actors.histories[partition]

    async def kill() -> None:
        core.observers.clear()
        assert dead._publisher is not None
        for task in (dead._flushing._task, dead._publisher._task):
            assert task is not None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def restart() -> None:
        if dead._store._folder is not None:
            dead._store._folder.release()
        await core.stop()
        full.controller.offsets[partition] = await actors.start_offsets(partition)

    full.run(kill())
    meanwhile()
    full.run(restart())
    full.follow(full.controller.view())
    ready(full, partition)

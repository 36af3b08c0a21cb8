"""Rows of a real client library's group in ``commits``, ``group_events`` and ``registrations``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from muster.actors.runtime.process import now_ms
from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.group_client import Fresh, Member
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Serving
from tests.group.driver import assignment
from tests.recording.history import held_at
from tests.table_rows import table_rows
from tests.zookeeper_fixture import eventually

PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "metrics.commits.flush.ms": "100",
    "metrics.events.flush.ms": "100",
}
COMMITS = 200


def rows(full: Serving, table: str, group: str) -> list[dict[str, Any]]:
    assert full.actors is not None
    return [row for row in table_rows(full.actors.storage, table) if row["group"] == group]


def test_a_consumer_joins_commits_and_leaves(full: Serving, fresh: Fresh) -> None:
    topic, group = fresh("flights"), fresh("billing")
    full.create(topic, 2)
    with reachable(full) as bootstrap:
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "biller", "enable.auto.commit": False}
        )
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) or len(consumer.assignment()) == 2, "two partitions")
        for offset in (*range(1, COMMITS), 3):
            consumer.commit(offsets=[TopicPartition(topic, p, offset + p) for p in range(2)], asynchronous=False)
        consumer.close()
    eventually(lambda: len(rows(full, "group_events", group)) == 5, "the group's end")
    eventually(lambda: sum(row["commits"] for row in rows(full, "commits", group)) == 2 * COMMITS, "every commit")
    eventually(lambda: len(rows(full, "registrations", group)) == 3, "the withdrawal")
    member_id = a_member(full, group)
    commits_are_complete(full, topic, group, member_id)
    registrations_are_those_of_its_membership(full, topic, group, member_id)


def a_member(full: Serving, group: str) -> str:
    """Its events are those of a complete life; returns its id."""
    events = rows(full, "group_events", group)
    assert [(row["event"], row["generation"], row["members"]) for row in events] == [
        ("member_added", None, 1),
        ("generation", 1, 1),
        ("assignment", 1, 1),
        ("member_left", 1, 0),
        ("generation", 2, 0),
    ]
    added, *_, left, _ = events
    assert {(row["member_id"], row["client_id"], row["host"]) for row in (added, left)} == {
        (added["member_id"], "biller", "127.0.0.1")
    }
    return str(added["member_id"])


def commits_are_complete(full: Serving, topic: str, group: str, member_id: str) -> None:
    """Each partition's rows continue where the previous one ends, and count every commit."""
    commits = rows(full, "commits", group)
    assert Counter(row["partition"] for row in commits).keys() == {0, 1}
    for partition in range(2):
        found = [row for row in commits if row["partition"] == partition]
        assert [row["previous"] for row in found] == [None, *(row["offset"] for row in found[:-1])]
        assert sum(row["commits"] for row in found) == COMMITS
        assert found[-1]["offset"] == 3 + partition
        assert min(row["lowest"] for row in found) == 1 + partition
    who = {(row["generation"], row["member_id"], row["client_id"], row["host"], row["topic"]) for row in commits}
    assert who == {(1, member_id, "biller", "127.0.0.1", topic)}


def registrations_are_those_of_its_membership(full: Serving, topic: str, group: str, member_id: str) -> None:
    said = rows(full, "registrations", group)
    assert [row["event"] for row in said] == ["registered", "registered", "withdrawn"]
    assert full.actors is not None
    every = table_rows(full.actors.storage, "registrations")
    held = held_at(every, said[-1]["ts"] - 1)[group, member_id]
    assert (held["client_id"], held["host"], held["kind"], held["generation"]) == ("biller", "127.0.0.1", "member", 1)
    assert held["principal"] == "User:ANONYMOUS"
    assert held["partitions"] == [{"topic": topic, "partition": partition} for partition in range(2)]
    assert (group, member_id) not in held_at(every, said[-1]["ts"])


def test_the_next_coordinator_says_what_it_has_found(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")
    partition = full.gateway.partition_of(group)
    assert full.run(full.gateway.coordinator_ready(partition, 10))
    member = Member(full.client, group)
    assert member.join().error_code is ErrorCode.none
    assert member.sync({member.id: assignment(("t", 0))}).error_code is ErrorCode.none
    epoch = next_coordinator(full, partition)
    (restored,) = eventually(
        lambda: [row for row in rows(full, "group_events", group) if row["event"] == "restored"], "what was found"
    )
    assert (restored["epoch"], restored["generation"], restored["members"]) == (epoch, 1, 1)
    assert full.actors is not None
    storage = full.actors.storage
    held = eventually(lambda: held_now(storage, epoch).get((group, member.id)), "the next snapshot")
    assert (held["partitions"], held["principal"]) == ([{"topic": "t", "partition": 0}], None)


def held_now(storage: Path, epoch: int) -> dict[tuple[str, str], Any]:
    """Rows of coordinators of that epoch."""
    held = held_at(table_rows(storage, "registrations"), now_ms())
    return {who: row for who, row in held.items() if row["epoch"] == epoch}


def next_coordinator(full: Serving, partition: int) -> int:
    """Let the partition's coordinator resign and another one serve; return its leader epoch."""
    actors = full.actors
    assert actors is not None

    async def hand_over() -> None:
        await actors.offsets[partition].stop()
        full.controller.offsets[partition] = await actors.start_offsets(partition)

    full.run(hand_over())
    return actors.offsets[partition].epoch

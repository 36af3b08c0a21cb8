"""``kafka-consumer-groups``: all its functions, on Muster as on Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools, table
from tests.conformance.topics import Offsets, commit, committed, create_topic, fill

RECORDS = 10
COMMITTED = 4
STEP_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Stage:
    """A topic of three partitions with ten records each, an hour apart, the last one an hour old."""

    tools: Tools
    bootstrap: str
    topic: str
    first_ms: int
    """Timestamp of the first record of each partition, in ms since the epoch."""

    def all(self, offset: int) -> Offsets:
        return {(self.topic, partition): offset for partition in range(3)}

    def reset(self, group: str, *arguments: str, scope: str = "--all-topics") -> Offsets:
        """Return the new offsets in the output of ``--reset-offsets``."""
        where = ["--all-topics"] if scope == "--all-topics" else ["--topic", scope]
        text = self.tools.consumer_groups("--reset-offsets", "--group", group, *where, *arguments)
        rows = table(text)
        assert {row["GROUP"] for row in rows} <= {group}
        return {(row["TOPIC"], int(row["PARTITION"])): int(row["NEW-OFFSET"]) for row in rows}

    def describe(self, group: str, *view: str) -> list[dict[str, str]]:
        return table(self.tools.consumer_groups("--describe", "--group", group, *view))


@pytest.fixture(scope="module")
def stage(bootstrap: str, release: Kafka) -> Stage:
    topic = "consumer-groups"
    create_topic(bootstrap, topic, 3)
    first_ms = int(time.time() * 1000) - RECORDS * STEP_MS
    for partition in range(3):
        fill(bootstrap, topic, partition, [first_ms + number * STEP_MS for number in range(RECORDS)])
    return Stage(Tools(release, bootstrap), bootstrap, topic, first_ms)


@pytest.fixture
def group(stage: Stage, fresh: Callable[[str], str]) -> str:
    """Return a group without members that has committed offset 4 of each partition."""
    name = fresh("group")
    commit(stage.bootstrap, name, stage.all(COMMITTED))
    return name


@contextmanager
def member(stage: Stage, group: str) -> Iterator[Consumer]:
    """Yield a static member that has all partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": stage.bootstrap,
            "group.id": group,
            "group.instance.id": "instance-1",
            "client.id": "the-client",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([stage.topic])
    try:
        deadline = time.monotonic() + 60
        while len(consumer.assignment()) != 3:
            assert time.monotonic() < deadline, "no assignment"
            consumer.poll(0.1)
        yield consumer
    finally:
        consumer.close()


def datetime_text(time_ms: int) -> str:
    """In the format of ``--to-datetime``, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"


RESETS: dict[str, tuple[Callable[[Stage], list[str]], int]] = {
    "to-earliest": (lambda _: ["--to-earliest"], 0),
    "to-latest": (lambda _: ["--to-latest"], RECORDS),
    "to-current": (lambda _: ["--to-current"], COMMITTED),
    "to-offset": (lambda _: ["--to-offset", "7"], 7),
    "to-offset-beyond-the-end": (lambda _: ["--to-offset", "700"], RECORDS),
    "shift-forward": (lambda _: ["--shift-by", "3"], COMMITTED + 3),
    "shift-back-beyond-the-start": (lambda _: ["--shift-by", "-100"], 0),
    "by-duration": (lambda _: ["--by-duration", "PT3H30M"], 7),
    "to-datetime": (lambda stage: ["--to-datetime", datetime_text(stage.first_ms + 3 * STEP_MS)], 3),
    "to-datetime-after-the-last": (
        lambda stage: ["--to-datetime", datetime_text(stage.first_ms + 99 * STEP_MS)],
        RECORDS,
    ),
}


@pytest.mark.parametrize("form", RESETS)
def test_reset_offsets(form: str, stage: Stage, group: str) -> None:
    arguments, offset = RESETS[form][0](stage), RESETS[form][1]
    assert stage.reset(group, *arguments, "--dry-run") == stage.all(offset)
    assert committed(stage.bootstrap, group) == stage.all(COMMITTED)
    assert stage.reset(group, *arguments, "--execute") == stage.all(offset)
    assert committed(stage.bootstrap, group) == stage.all(offset)


def test_reset_offsets_of_some_partitions(stage: Stage, group: str) -> None:
    two = {(stage.topic, 0): 0, (stage.topic, 2): 0}
    assert stage.reset(group, "--to-earliest", "--execute", scope=f"{stage.topic}:0,2") == two
    assert committed(stage.bootstrap, group) == {**stage.all(COMMITTED), **two}


def test_reset_offsets_of_a_topic_never_committed(stage: Stage, fresh: Callable[[str], str]) -> None:
    group = fresh("group")
    assert stage.reset(group, "--to-latest", "--execute", scope=stage.topic) == stage.all(RECORDS)
    assert committed(stage.bootstrap, group) == stage.all(RECORDS)


def test_export_and_reset_from_file(stage: Stage, group: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    arguments = ["--reset-offsets", "--group", group]
    exported = stage.tools.consumer_groups(*arguments, "--all-topics", "--to-latest", "--export", "--dry-run")
    assert sorted(exported.split()) == [f"{stage.topic},{partition},{RECORDS}" for partition in range(3)]
    plan.write_text(exported)
    stage.tools.consumer_groups(*arguments, "--from-file", str(plan), "--dry-run")
    assert committed(stage.bootstrap, group) == stage.all(COMMITTED)
    stage.tools.consumer_groups(*arguments, "--from-file", str(plan), "--execute")
    assert committed(stage.bootstrap, group) == stage.all(RECORDS)


def test_reset_offsets_of_all_groups(stage: Stage, fresh: Callable[[str], str]) -> None:
    topic, groups = fresh("topic"), [fresh("group"), fresh("group")]
    create_topic(stage.bootstrap, topic, 1)
    fill(stage.bootstrap, topic, 0, [stage.first_ms] * 3)
    for name in groups:
        commit(stage.bootstrap, name, {(topic, 0): 1})
    text = stage.tools.consumer_groups("--reset-offsets", "--all-groups", "--topic", topic, "--to-latest", "--execute")
    assert set(groups) <= {row["GROUP"] for row in table(text)}
    assert [committed(stage.bootstrap, name) for name in groups] == [{(topic, 0): 3}] * 2


def test_list(stage: Stage, group: str) -> None:
    groups = stage.tools.consumer_groups
    assert group in groups("--list").split()
    assert {row["GROUP"]: row["STATE"] for row in table(groups("--list", "--state"))}[group] == "Empty"
    assert {row["GROUP"]: row["TYPE"] for row in table(groups("--list", "--type"))}[group] == "Classic"
    assert group in {row["GROUP"] for row in table(groups("--list", "--state", "empty"))}
    assert group not in {row["GROUP"] for row in table(groups("--list", "--state", "stable,preparingrebalance"))}
    assert group in {row["GROUP"] for row in table(groups("--list", "--type", "classic"))}
    assert group not in {row["GROUP"] for row in table(groups("--list", "--type", "consumer"))}


def test_describe_a_group_without_members(stage: Stage, group: str) -> None:
    rows = stage.describe(group)
    assert [(row["TOPIC"], row["PARTITION"]) for row in rows] == [(stage.topic, str(number)) for number in range(3)]
    for row in rows:
        assert (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) == ("4", "10", "6")
        assert (row["CONSUMER-ID"], row["HOST"], row["CLIENT-ID"]) == ("-", "-", "-")
    (state,) = stage.describe(group, "--state")
    assert (state["STATE"], state["#MEMBERS"]) == ("Empty", "0")
    assert stage.describe(group, "--members") == []


def test_describe_a_group_that_does_not_exist(stage: Stage) -> None:
    text = stage.tools.consumer_groups("--describe", "--group", "unknown")
    assert "GroupIdNotFoundException: Group unknown not found." in text


def test_a_group_with_a_member(stage: Stage, group: str) -> None:
    """Every view of it, and the operations that it must refuse."""
    with member(stage, group) as consumer:
        member_id = consumer.memberid()
        for row in stage.describe(group, "--offsets"):
            assert (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) == ("4", "10", "6")
            assert (row["CONSUMER-ID"], row["HOST"], row["CLIENT-ID"]) == (member_id, "/127.0.0.1", "the-client")

        (row,) = stage.describe(group, "--members")
        assert (row["CONSUMER-ID"], row["GROUP-INSTANCE-ID"]) == (member_id, "instance-1")
        assert (row["HOST"], row["CLIENT-ID"], row["#PARTITIONS"]) == ("/127.0.0.1", "the-client", "3")
        (row,) = stage.describe(group, "--members", "--verbose")
        assert row["CURRENT-ASSIGNMENT"] == f"{stage.topic}:0,1,2"

        (row,) = stage.describe(group, "--state")
        assert (row["STATE"], row["#MEMBERS"], row["ASSIGNMENT-STRATEGY"]) == ("Stable", "1", "range")
        assert row["COORDINATOR(ID)"].split("(")[0] in stage.bootstrap.split(",")

        refused = stage.tools.consumer_groups("--delete", "--group", group)
        assert f"'{group}' could not be deleted" in refused
        assert "GroupNotEmptyException" in refused
        assert stage.reset(group, "--to-earliest", "--execute") == {}
        refused = stage.tools.consumer_groups("--delete-offsets", "--group", group, "--topic", stage.topic)
        assert refused.count("GroupSubscribedToTopicException") == 3
        assert committed(stage.bootstrap, group) == stage.all(COMMITTED)


def test_delete(stage: Stage, group: str) -> None:
    text = stage.tools.consumer_groups("--delete", "--group", group, "--group", "unknown")
    assert "GroupIdNotFoundException" in text
    assert f"These consumer groups were deleted successfully: '{group}'" in text
    assert group not in stage.tools.consumer_groups("--list").split()
    assert committed(stage.bootstrap, group) == {}


def test_delete_offsets(stage: Stage, group: str) -> None:
    scopes = ["--topic", f"{stage.topic}:0,2", "--topic", "no-such-topic:0"]
    rows = table(stage.tools.consumer_groups("--delete-offsets", "--group", group, *scopes))
    status = {(row["TOPIC"], row["PARTITION"]): row["STATUS"] for row in rows}
    assert status[stage.topic, "0"] == status[stage.topic, "2"] == "Successful"
    assert "UnknownTopicOrPartitionException" in status["no-such-topic", "0"]
    assert committed(stage.bootstrap, group) == {(stage.topic, 1): COMMITTED}

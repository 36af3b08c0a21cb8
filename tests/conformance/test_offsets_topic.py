"""``__consumer_offsets`` read by Kafka's own tools: over the protocol and from the segment files."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from pytest_muster.bound import bound
from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools
from tests.conformance.topics import commit, create_topic, fill, now_ms
from tests.muster_process import Muster

TOPIC = "__consumer_offsets"
_FORMATTERS = "org.apache.kafka.tools.consumer"
_DUMP = "org.apache.kafka.tools.DumpLogSegments"
_JOIN_S = _READ_S = 60


@pytest.fixture
def worked(muster: Muster, fresh: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Group and topic: offsets 3 and 5 were committed, the latter by a member that holds the topic's two partitions."""
    topic, group = fresh("topic"), fresh("group")
    create_topic(muster.bootstrap, topic, 2)
    fill(muster.bootstrap, topic, 0, [now_ms()] * 5)  # retention.ms removes old ones
    commit(muster.bootstrap, group, {(topic, 0): 3})
    settings = {"bootstrap.servers": muster.bootstrap, "group.id": group, "client.id": "worker"}
    member = Consumer(settings | {"group.instance.id": "one", "enable.auto.commit": False})
    member.subscribe([topic])
    deadline = time.monotonic() + _JOIN_S
    read = 0
    while read < 2:
        assert time.monotonic() < deadline, "the member reads nothing"
        message = member.poll(1)
        read += message is not None and not message.error()
    member.commit(asynchronous=False)
    yield group, topic
    member.close()


def console(tools: Tools, formatter: str, group: str, records: int) -> list[dict[str, Any]]:
    """Return the formatter's output for a group: a JSON object for each record type that it knows.

    The tool reads until no record has arrived for some seconds, which on a busy machine may be before the first record:
    it is run again until it has seen as many records as there are.
    """
    deadline = time.monotonic() + _READ_S
    while True:
        said = tools.run(
            "consumer.ConsoleConsumer",
            *("--topic", TOPIC, "--from-beginning", "--timeout-ms", "6000"),
            *("--formatter", f"{_FORMATTERS}.{formatter}"),
        )
        mine = [each for each in objects(said) if each["key"]["data"]["group"] == group]
        if len(mine) >= records or time.monotonic() > deadline:
            return mine


def objects(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects without separators, as Kafka's formatters write them."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        found, end = decoder.raw_decode(text, at)
        yield found
        at = text.find("{", end)


def test_offsets_message_formatter(muster: Muster, release: Kafka, worked: tuple[str, str]) -> None:
    group, topic = worked
    mine = console(Tools(release, muster.bootstrap), "OffsetsMessageFormatter", group, 2)
    assert [each["key"] for each in mine] == [
        {"type": 1, "data": {"group": group, "topic": topic, "partition": 0}} for _ in mine
    ]
    assert [(each["value"]["version"], each["value"]["data"]["offset"]) for each in mine] == [(3, 3), (3, 5)]
    assert all(each["value"]["data"]["commitTimestamp"] > 0 for each in mine)


def test_group_metadata_message_formatter(muster: Muster, release: Kafka, worked: tuple[str, str]) -> None:
    group, _ = worked
    *_, last = console(Tools(release, muster.bootstrap), "GroupMetadataMessageFormatter", group, 1)
    assert last["key"] == {"type": 2, "data": {"group": group}}
    assert last["value"]["version"] == 3
    metadata = last["value"]["data"]
    assert (metadata["protocolType"], metadata["protocol"], metadata["generation"]) == ("consumer", "range", 1)
    [member] = metadata["members"]
    assert (member["memberId"], member["groupInstanceId"]) == (metadata["leader"], "one")
    assert (member["clientId"], member["sessionTimeout"]) == ("worker", 45_000)


def test_dump_log_segments(muster: Muster, release: Kafka, worked: tuple[str, str]) -> None:
    """``kafka-dump-log --offsets-decoder`` on Muster's own segment files."""
    group, topic = worked
    said = "".join(dumped(release, segment) for segment in segments(muster.storage))
    lines = [line for line in said.splitlines() if f'"group":"{group}"' in line]
    payloads = [line.split("payload: ", 1)[1] for line in lines]
    offsets = [json.loads(text)["data"]["offset"] for text in payloads if '"offset"' in text]
    assert offsets == [3, 5]
    assert any('"groupInstanceId":"one"' in text for text in payloads)
    assert f'"topic":"{topic}"' in said
    assert "isvalid: true" in said
    assert "isvalid: false" not in said


def segments(storage: Path) -> list[Path]:
    return [path for path in sorted(storage.glob(f"logs/{TOPIC}-*/*.log")) if path.stat().st_size]


def dumped(release: Kafka, segment: Path) -> str:
    arguments = ["--files", str(segment), "--offsets-decoder", "--print-data-log"]
    done = subprocess.run(
        bound(release.command(_DUMP, *arguments, heap_mb=128)),
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

"""``muster topics produce`` and ``tail`` beside librdkafka: codecs, partitions of keys, batches that are too large."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Message, Producer

from muster.gateway.cli import messages
from muster.gateway.cli.client import producer as own_producer
from muster.gateway.cli.main import cli
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Serving

Fresh = Callable[[str], str]
WAIT_S = 60


def run(bootstrap: str, *arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(cli, ["topics", *arguments, "--bootstrap-server", bootstrap], input=stdin)


def shown(bootstrap: str, topic: str, count: int) -> list[dict[str, object]]:
    done = run(bootstrap, "tail", topic, "--from-beginning", "--count", str(count), "--json")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_tail_reads_every_codec(full: Serving, fresh: Fresh, codec: str) -> None:
    topic, values = full.create(fresh("t"), 1).name, [f"{number}{'-' * 200}" for number in range(50)]
    with reachable(full) as bootstrap:
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 100})
        for value in values:
            producer.produce(topic, value, headers=[("h", b"1"), ("h", None)])
        assert producer.flush(WAIT_S) == 0
        found = shown(bootstrap, topic, len(values))
    assert [row["value"] for row in found] == values
    assert found[0]["headers"] == [["h", "1"], ["h", None]]
    assert [row["offset"] for row in found] == list(range(50))


def test_keys_choose_partitions_as_in_kafkas_own_producer(full: Serving, fresh: Fresh) -> None:
    """librdkafka's ``murmur2`` is that of Java's producer."""
    topic, other = (full.create(fresh("t"), 7).name for _ in range(2))
    keys = ["".join(map(chr, range(65, 65 + length))) for length in range(30)]
    expected: dict[str, int] = {}

    def delivered(_: object, message: Message) -> None:
        expected[(message.key() or b"").decode()] = message.partition() or 0

    with reachable(full) as bootstrap:
        producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2"})
        for key in keys:
            producer.produce(other, b"", key, on_delivery=delivered)
        assert producer.flush(WAIT_S) == 0
        lines = "".join(f"{key}:{number}\n" for number, key in enumerate(keys))
        sent = run(bootstrap, "produce", topic, "--key-separator", ":", stdin=lines.encode())
        assert sent.stderr == f"{len(keys)} messages acknowledged\n"
        found = shown(bootstrap, topic, len(keys))
    assert {str(row["key"]): row["partition"] for row in found} == expected
    assert len(set(expected.values())) == 7


def test_a_batch_that_is_too_large_is_divided(full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing waits between two parts."""
    monkeypatch.setattr(own_producer, "_PAUSE_S", 10 * WAIT_S)
    topic = full.create(fresh("t"), 1, max_message_bytes="2000").name
    lines = [f"{number:03}{'-' * 97}\n" for number in range(200)]
    with reachable(full) as bootstrap:
        sent = run(bootstrap, "produce", topic, stdin="".join(lines).encode())
        assert sent.stderr == "200 messages acknowledged\n"
        lines[50] = "-" * 3000 + "\n"
        sent = run(bootstrap, "produce", topic, stdin="".join(lines).encode())
        assert "50 messages acknowledged" in sent.stderr
        assert f"150 messages not acknowledged by {topic}: MESSAGE_TOO_LARGE" in sent.stderr
        found = shown(bootstrap, topic, 250)
    assert [str(row["value"])[:3] for row in found] == [f"{number:03}" for number in (*range(200), *range(50))]


def test_what_sends_nothing_creates_no_topic(full: Serving, fresh: Fresh) -> None:
    topic = fresh("t")
    with reachable(full) as bootstrap:
        sent = run(bootstrap, "produce", topic, "--key-separator", ":", stdin=b"no separator\n")
    assert sent.exit_code == 1
    assert "line 1 has no key separator" in sent.stderr
    assert topic not in full.gateway.view.topics


def test_a_line_that_no_gateway_takes(full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_MAX_LINE_BYTES", 1 << 20)
    with reachable(full) as bootstrap:
        sent = run(bootstrap, "produce", fresh("t"), stdin=b"-" * (2 << 20))
    assert sent.exit_code == 1
    assert "a line has more than 1 MiB" in sent.stderr


def test_a_partition_that_is_not_there(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 2).name
    with reachable(full) as bootstrap:
        sent = run(bootstrap, "produce", topic, "--partition", "2", stdin=b"1\n2\n")
    assert sent.exit_code == 1
    assert f"2 messages not acknowledged by {topic}: UNKNOWN_TOPIC_OR_PARTITION" in sent.stderr

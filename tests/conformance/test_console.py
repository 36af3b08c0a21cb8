"""``kafka-console-producer`` and ``kafka-console-consumer``."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools
from tests.conformance.topics import committed, create_topic
from tests.muster_process import Muster


def test_console_producer_and_consumer(muster: Muster, release: Kafka, fresh: Callable[[str], str]) -> None:
    topic, group, tools = fresh("topic"), fresh("group"), Tools(release, muster.bootstrap)
    create_topic(muster.bootstrap, topic, 2)
    lines = [f"line {number}" for number in range(20)]
    tools.run("ConsoleProducer", "--topic", topic, stdin="\n".join(lines) + "\n")
    consumer = ["--topic", topic, "--group", group, "--from-beginning", "--max-messages", "20", "--timeout-ms", "60000"]
    assert sorted(tools.run("consumer.ConsoleConsumer", *consumer).splitlines()) == sorted(lines)
    assert sum(committed(muster.bootstrap, group).values()) == 20

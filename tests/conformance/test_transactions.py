"""``kafka-producer-perf-test`` with transactions, which Muster does not serve yet: Java's producer says why at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.gateway.apis.transactions import NOT_SERVED
from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools
from tests.conformance.topics import create_topic, ends
from tests.muster_process import Muster


def test_a_transactional_producer(muster: Muster, release: Kafka, fresh: Callable[[str], str]) -> None:
    topic, tools = fresh("topic"), Tools(release, muster.bootstrap)
    create_topic(muster.bootstrap, topic, 1)
    arguments = ["--topic", topic, "--num-records", "10", "--record-size", "10", "--throughput", "-1"]
    with pytest.raises(AssertionError, match=NOT_SERVED):
        tools.run("ProducerPerformance", *arguments, "--transactional-id", "t")
    assert ends(muster.bootstrap, topic, 1) == {(topic, 0): 0}
    tools.run("ProducerPerformance", *arguments)
    assert ends(muster.bootstrap, topic, 1) == {(topic, 0): 10}

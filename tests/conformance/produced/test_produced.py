"""Kafka accepts and refuses batches as it is recorded: what Muster is compared with in ``make test`` stays true."""

from __future__ import annotations

from tests.conformance.artifacts import Kafka
from tests.conformance.produced.record import played_on_kafka
from tests.gateway.apis.produced.cases import recorded


def test_kafka_responds_as_recorded(release: Kafka) -> None:
    found, expected = played_on_kafka(release), recorded()
    assert found.keys() == expected.keys()
    assert {case: outcome for case, outcome in found.items() if outcome != expected[case]} == {}

"""Kafka's authorizer decides as it is recorded: what Muster is compared with in ``make test`` stays true."""

from __future__ import annotations

from tests.conformance.artifacts import Kafka
from tests.conformance.authorization.broker import authorizing_broker
from tests.gateway.authorization.recorded import played, recorded
from tests.gateway.authorization.world import World


def test_kafka_responds_as_recorded(release: Kafka) -> None:
    with authorizing_broker(release) as broker, World(broker.bootstrap_servers) as world:
        world.prepare()
        found = dict(played(world))
    expected = recorded()
    assert found.keys() == expected.keys()
    assert {case: outcome for case, outcome in found.items() if outcome != expected[case]} == {}

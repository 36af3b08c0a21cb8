"""``kafka-configs``."""

from __future__ import annotations

from conformance.artifacts import Kafka
from conformance.clients import Tools


def test_what_has_no_configs_of_its_own(bootstrap: str, release: Kafka) -> None:
    tools = Tools(release, bootstrap)
    assert tools.configs("--describe", "--entity-type", "groups").strip() == ""
    assert tools.configs("--describe", "--entity-type", "client-metrics").strip() == ""
    everything = tools.configs("--describe", "--entity-type", "groups", "--entity-name", "any group", "--all")
    expected = "consumer.session.timeout.ms=45000 sensitive=false"
    assert f"{expected} synonyms={{DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}}" in everything

"""Records Kafka's outcomes again: ``python -m tests.conformance.produced.record``."""

from __future__ import annotations

from muster.actors.runtime.process import now_ms
from tests.conformance.artifacts import Kafka, kafka
from tests.conformance.kafka import KafkaBroker
from tests.gateway.apis.produced.cases import Outcome, create_topics, played, record_outcomes
from tests.gateway.serving import Client


def played_on_kafka(release: Kafka) -> dict[str, Outcome]:
    """Play on a broker of its own, since the topics have fixed names."""
    with KafkaBroker(release=release) as broker, Client(int(broker.bootstrap_servers.rpartition(":")[2])) as client:
        create_topics(client)
        return played(client, now_ms(), str)


def main() -> None:
    record_outcomes(played_on_kafka(kafka()))


if __name__ == "__main__":
    main()

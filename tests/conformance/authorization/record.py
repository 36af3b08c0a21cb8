"""Records Kafka's responses again: ``python -m tests.conformance.authorization.record``."""

from __future__ import annotations

from tests.conformance.artifacts import kafka
from tests.conformance.authorization.broker import authorizing_broker
from tests.gateway.authorization.recorded import played, record
from tests.gateway.authorization.world import World


def main() -> None:
    with authorizing_broker(kafka()) as broker, World(broker.bootstrap_servers) as world:
        world.prepare()
        record(dict(played(world)))


if __name__ == "__main__":
    main()

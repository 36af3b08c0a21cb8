"""Records Kafka's outcomes again: ``python -m tests.conformance.quotas.record``."""

from __future__ import annotations

from tests.conformance.artifacts import kafka
from tests.conformance.authorization.broker import authorizing_broker
from tests.gateway.quotas.cases import played, record
from tests.gateway.quotas.world import World


def main() -> None:
    with authorizing_broker(kafka()) as broker, World(broker.bootstrap_servers, follows_later=True) as world:
        world.prepare()
        record(played(world))


if __name__ == "__main__":
    main()

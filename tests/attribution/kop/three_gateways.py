"""Gateways A, B and C of one Muster, each on a socket of its own: one ZooKeeper, the same actors, no Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.actors.config import MusterConfig
from muster.gateway.listener.server import GatewayServer
from muster.placement.view import Broker, ClusterView, Topic
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.gateway.serving import Client, Serving, new_gateway, serving

NAMES = "ABC"


class ThreeGateways:
    """``backstage`` has the actors and the controller; its own gateway is in no view, so no client finds it."""

    def __init__(self, backstage: Serving, directory: Path, config: MusterConfig) -> None:
        self._backstage = backstage
        self._directory = directory
        self._config = config
        self._ports: dict[str, int] = {}
        self.gateways: dict[str, GatewayServer] = {}
        self.retired: list[GatewayServer] = []
        controller = backstage.controller
        to_actors = controller.publish

        def publish(view: ClusterView) -> None:
            to_actors(view)
            for gateway in self.gateways.values():
                gateway.follow(view)

        controller.publish = publish
        for name in NAMES:
            self.start(name)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def start(self, name: str) -> None:
        """Start a new gateway with a new account on the same port: a new process has no knowledge."""

        async def start() -> None:
            controller = self._backstage.controller
            gateway = await new_gateway(NAMES.index(name) + 11, self._directory, self._config, controller)
            self._ports[name] = await gateway.listen("127.0.0.1", self._ports.get(name, 0))
            self.gateways[name] = gateway

        self._backstage.run(start())
        self._publish()

    def stop(self, name: str) -> None:
        """Stop a gateway, which closes its connections; other gateways lead its partitions from now on."""
        gateway = self.gateways.pop(name)
        self._backstage.run(gateway.stop())
        self.retired.append(gateway)
        self._publish()

    def connect(self, name: str, client_id: str | None) -> Client:
        return Client(self._ports[name], client_id)

    def leader(self, topic: Topic, partition: int) -> str:
        """Return the gateway that Metadata names for the partition."""
        broker = self._backstage.controller.view().leader_of(topic, partition)
        assert broker is not None
        return NAMES[broker.id - 11]

    def coordinator(self, group: str) -> str:
        """Return the gateway that FindCoordinator names for the group."""
        broker = self._backstage.controller.view().coordinator_of(self._backstage.gateway.partition_of(group))
        assert broker is not None
        return NAMES[broker.id - 11]

    def fetched(self) -> dict[str | None, int]:
        """Bytes by group, over all gateways that ever existed; under None those without a group, yet or for good."""

        async def read() -> dict[str | None, int]:
            books: dict[str | None, int] = {}
            for gateway in (*self.gateways.values(), *self.retired):
                account = gateway.account
                held = account.snapshot()
                for (group, *_), total in held.groups.items():
                    books[group] = books.get(group, 0) + total.bytes
                nobody = sum(total.bytes for part in (held.reasons, held.pending) for total in part.values())
                if nobody:
                    books[None] = books.get(None, 0) + nobody
                sent = sum(total.bytes for total in held.sent.values())
                assert sent == nobody + sum(total.bytes for total in held.groups.values())
            return books

        books: dict[str | None, int] = self._backstage.run(read())
        return books

    def _publish(self) -> None:
        controller = self._backstage.controller
        controller.brokers = tuple(
            Broker(id=gateway.id, host="127.0.0.1", port=self._ports[name], node_id="n1")
            for name, gateway in sorted(self.gateways.items())
        )

        async def publish() -> None:
            controller.publish(await asyncio.to_thread(controller.view))

        self._backstage.run(publish())

    def close(self) -> None:
        for gateway in self.gateways.values():
            self._backstage.run(gateway.stop())


@contextmanager
def three_gateways(
    zk: ZooKeeperClient, directory: Path, properties: dict[str, str]
) -> Iterator[tuple[ThreeGateways, Serving]]:
    with serving(zk, directory, properties, with_actors=True) as backstage:
        three = ThreeGateways(backstage, directory, MusterConfig.from_properties(properties))
        try:
            yield three, backstage
        finally:
            three.close()

"""``/brokers/ids/<id>``: a gateway shows itself in ZooKeeper, as a Kafka broker does, for as long as it lives."""

from __future__ import annotations

import contextlib
import logging
import threading

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from actors.runtime import now_ms
from placement.layout import BrokerNode, broker_path
from placement.view import Broker
from placement.zookeeper import ZooKeeperUnreachable, client

log = logging.getLogger(__name__)

_RETRY_S = 2.0


class BrokerRegistration:
    """Keeps the ephemeral node there, again after every new session; never in anybody's way.

    Nothing of Muster reads the node: who serves is in the ClusterView. It is for Kafka's tools and for people.
    """

    def __init__(self, zookeeper: str, broker: Broker) -> None:
        self._broker = broker
        self._zk = client(zookeeper)
        self._new_session = threading.Event()
        self._closed = False
        self._zk.add_listener(self._state_changed)
        self._thread = threading.Thread(target=self._run, name="broker-registration", daemon=True)
        self._thread.start()

    def _state_changed(self, state: str) -> None:
        if state == "CONNECTED":
            self._new_session.set()

    def _run(self) -> None:
        self._zk.start_async()
        while not self._closed:
            if not self._new_session.wait(_RETRY_S) or self._closed:
                continue
            self._new_session.clear()
            try:
                self._register()
            except (KazooException, ZooKeeperUnreachable) as error:
                log.warning("cannot register broker %d: %r", self._broker.id, error)
                self._new_session.set()
                threading.Event().wait(_RETRY_S)

    def _register(self) -> None:
        """Create the node; one that a predecessor of the same id left behind is replaced."""
        broker, path = self._broker, broker_path(self._broker.id)
        data = BrokerNode(host=broker.host, port=broker.port, node_id=broker.node_id, timestamp_ms=now_ms()).encode()
        try:
            self._zk.ask(self._zk.create, path, data, ephemeral=True, makepath=True)
        except NodeExistsError:
            session = self._zk.client_id[0] if self._zk.client_id else None
            found = self._zk.ask(self._zk.exists, path)
            if found is not None and found.ephemeralOwner == session:
                return
            with contextlib.suppress(NoNodeError):
                self._zk.ask(self._zk.delete, path)
            self._zk.ask(self._zk.create, path, data, ephemeral=True, makepath=True)

    def close(self) -> None:
        """End the session; the node goes with it."""
        self._closed = True
        self._new_session.set()
        self._thread.join(_RETRY_S)
        self._zk.shut()

"""KoP's rule for the group of a fetched byte: an exact model, to compare Muster's rule with.

Kafka-on-Pulsar (streamnative/kop with ``kopEnableGroupLevelConsumerMetrics``) keeps one node per (host, client id),
``/client_group_id/<host>-<client id>``, that holds a group id:

* written on each FindCoordinator for a group, unconditionally: the last writer wins, the node is persistent
  (``KafkaRequestHandler.findSingleCoordinator``);
* read at the first fetch of a connection that returns data; the result, including "" for no node or an error,
  stays until the connection closes (``MessageFetchContext.getCurrentConnectedGroupNameAsync``);
* deleted, unconditionally, when the connection closes over which the coordinator was looked up
  (``KafkaRequestHandler.close``).

docs/attribution.md explains how each of these goes wrong.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Protocol

ROOT = "/client_group_id"
"""KoP's default ``groupIdZooKeeperPath``."""

_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]|//|/\.{1,2}(/|\Z)|/\Z")


class StoreError(Exception):
    """The store is unavailable, or rejects the path. KoP logs the error and continues."""


class Store(Protocol):
    """KoP's metadata store. Each call may raise StoreError."""

    def put(self, path: str, data: bytes) -> None:
        """Create or overwrite the node, unconditionally."""

    def get(self, path: str) -> bytes | None:
        """Return the data; None if there is no node."""

    def delete(self, path: str) -> None:
        """Remove the node, unconditionally; nothing happens if there is none."""


class MemoryStore:
    """A tree of nodes with ZooKeeper's rules for paths. ``available = False`` makes every call fail."""

    def __init__(self) -> None:
        self.available = True
        self.nodes: dict[str, bytes] = {}

    def put(self, path: str, data: bytes) -> None:
        self._check(path)
        parent = path.rpartition("/")[0]
        while parent and parent not in self.nodes:
            self.nodes[parent] = b""
            parent = parent.rpartition("/")[0]
        self.nodes[path] = data

    def get(self, path: str) -> bytes | None:
        self._check(path)
        return self.nodes.get(path)

    def delete(self, path: str) -> None:
        self._check(path)
        if any(other.startswith(f"{path}/") for other in self.nodes):
            raise StoreError(f"{path} has children")
        self.nodes.pop(path, None)

    def _check(self, path: str) -> None:
        if not self.available:
            raise StoreError("the store is unavailable")
        if _REFUSED.search(path):
            raise StoreError(f"invalid path {path!r}")


@dataclass(slots=True)
class _Connection:
    """KoP's state of a connection: ``currentConnectedGroup`` (one entry, since its key has the port) and
    ``currentConnectedClientId``."""

    label: str | None = None
    client_ids: dict[str, str] = field(default_factory=dict)
    """The node of each client id that looked up a coordinator over this connection."""


class KopRule:
    """The behaviour of one KoP broker; brokers that share a store share its nodes. Not thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._connections: dict[Hashable, _Connection] = {}

    def found_coordinator(
        self, connection_id: Hashable, address: str, client_id: str | None, groups: Iterable[str]
    ) -> bool:
        """Apply a FindCoordinator for these groups; ``address`` as by :func:`java_address`.

        Return False if KoP never responds: a null client id throws inside the callback (F10).
        """
        if client_id is None:
            return False
        connection = self._connections.setdefault(connection_id, _Connection())
        path = connection.client_ids[client_id] = node_path(address, client_id)
        for group in groups:
            try:
                self._store.put(path, group.encode("utf-8", "surrogatepass"))
            except StoreError:
                continue
        return True

    def label(self, connection_id: Hashable, address: str, client_id: str | None) -> str:
        """Return the group under which a fetch on that connection is counted; "" if KoP has none."""
        connection = self._connections.get(connection_id)
        if connection is None:
            connection = self._connections[connection_id] = _Connection()
        if connection.label is None:
            connection.label = self._read(node_path(address, client_id))
        return connection.label

    def closed(self, connection_id: Hashable) -> None:
        """Apply the close of a connection, by either side."""
        connection = self._connections.pop(connection_id, None)
        for path in connection.client_ids.values() if connection is not None else ():
            try:
                self._store.delete(path)
            except StoreError:
                continue

    def _read(self, path: str) -> str:
        try:
            data = self._store.get(path)
        except StoreError:
            return ""
        return "" if data is None else data.decode("utf-8", "replace")


def node_path(address: str, client_id: str | None) -> str:
    """Return the client's node, as KoP's ``GroupIdUtils.groupIdPathFormat`` names it: the address up to its first ``:``
    (IPv6: its first 16 bits), and Java's ``"null"`` for null."""
    key = f"{address.partition(':')[0]}-{'null' if client_id is None else client_id}"
    return f"{ROOT}{key if key.startswith('/') else f'/{key}'}"


def java_address(host: str, port: int, *, name: str | None = None) -> str:
    """Format a socket address as Java's ``InetSocketAddress.toString`` prints it: ``/10.0.0.1:5555``,
    ``/[2001:db8:0:0:0:0:0:1]:5555``; with the host's ``name`` before the slash once something has resolved it (F8).

    IPv4-mapped IPv6 is IPv4, as ``InetAddress`` has it. Raises ValueError if ``host`` is no IP address.
    """
    address = ip_address(host)
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            words = ":".join(f"{int(word, 16):x}" for word in address.packed.hex(" ", 2).split())
            zone = f"%{address.scope_id}" if address.scope_id else ""
            return f"{name or ''}/[{words}{zone}]:{port}"
        address = address.ipv4_mapped
    return f"{name or ''}/{address}:{port}"

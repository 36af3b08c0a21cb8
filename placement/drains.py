"""Which nodes are drained, stored in ZooKeeper to outlive every process. Calls block: at most ~10 s each."""

from __future__ import annotations

import contextlib

from kazoo.exceptions import NodeExistsError, NoNodeError

from muster.placement.layout import DRAINED_NODES, drained_node_path, encode_drained_node
from muster.placement.zookeeper.client import ZooKeeperClient


def drain(zk: ZooKeeperClient, node_id: str, now_ms: int) -> None:
    """Mark the node as drained: it must not have actors from now on. Raises ZooKeeperUnreachable."""
    with contextlib.suppress(NodeExistsError):
        zk.call(zk.create_async, drained_node_path(node_id), encode_drained_node(now_ms), makepath=True)


def undrain(zk: ZooKeeperClient, node_id: str) -> None:
    """Allow the node to run actors again. Raises ZooKeeperUnreachable."""
    with contextlib.suppress(NoNodeError):
        zk.call(zk.delete_async, drained_node_path(node_id))


def drained(zk: ZooKeeperClient) -> frozenset[str]:
    """Ids of the nodes that must not have actors. Raises ZooKeeperUnreachable."""
    try:
        zk.call(zk.sync_async, DRAINED_NODES)
        return frozenset(zk.call(zk.get_children_async, DRAINED_NODES))
    except NoNodeError:
        return frozenset()

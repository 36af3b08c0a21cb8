"""Protects the nodes of an existing tree, or opens them, as Kafka's ``zookeeper-security-migration`` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kazoo.exceptions import NoNodeError
from kazoo.security import ACL, Permissions

from muster.placement.zookeeper.access import OPEN, protected
from muster.placement.zookeeper.client import ZooKeeperClient

ROOTS = (
    "/brokers",
    "/cluster",
    "/config",
    "/controller",
    "/controller_epoch",
    "/latest_producer_id_block",
    "/client_group_id",
    "/client_group_fences",
    "/actor_epochs",
    "/drained_nodes",
    "/login_secret",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
)
"""Every node of Muster is one of these, or below."""
_AT_ONCE = 500
_TIMEOUT_S = 30.0


def secure(zk: ZooKeeperClient) -> int:
    """Protect the root and every node of Muster; returns their number. The client must have an identity."""
    return _set(zk, protected)


def secure_whole(zk: ZooKeeperClient) -> int:
    """Secure a ZooKeeper that is Muster's alone, with ZooKeeper's own nodes; return the number of nodes."""
    _set_all(zk, ("/zookeeper", "/zookeeper/quota"), protected)
    return secure(zk)


def unsecure(zk: ZooKeeperClient) -> int:
    """Let anyone change the root and every node of Muster; returns their number."""
    return _set(zk, lambda path: OPEN)


def is_secure(zk: ZooKeeperClient) -> bool:
    """Whether the root is protected, which is done last."""
    acls, _ = zk.call(zk.get_acls_async, "/")
    return not any(acl.id.scheme == "world" and acl.perms != Permissions.READ for acl in acls)


def nodes(zk: ZooKeeperClient) -> Iterator[str]:
    """Every node of Muster that exists, parents first."""
    level: Sequence[str] = ROOTS
    while level:
        children = zk.children_of_many(level)
        yield from children
        level = [f"{path}/{name}" for path, names in children.items() for name in names]


def _set(zk: ZooKeeperClient, acl_of: Callable[[str], Sequence[ACL]]) -> int:
    return _set_all(zk, [*nodes(zk), "/"], acl_of)


def _set_all(zk: ZooKeeperClient, paths: Sequence[str], acl_of: Callable[[str], Sequence[ACL]]) -> int:
    count = 0
    for start in range(0, len(paths), _AT_ONCE):
        some = paths[start : start + _AT_ONCE]
        for result in [zk.set_acls_async(path, list(acl_of(path))) for path in some]:
            try:
                result.get(timeout=_TIMEOUT_S)
            except NoNodeError:
                continue
            count += 1
    return count

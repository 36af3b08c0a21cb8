"""The authorized operations that responses have on request (KIP-430)."""

from __future__ import annotations

from muster.gateway.apis.guards.rights import CLUSTER, DESCRIBE_CLUSTER
from muster.gateway.listener.api import Call
from muster.placement.security.acls import CLUSTER_NAME, AclResourceType

OMITTED = -(2**31)
"""Not requested."""


def authorized_operations(call: Call, requested: bool, resource: AclResourceType, name: str) -> int:
    """Return the client's operations on that resource, ``1 << operation`` for each."""
    return call.operations(resource, name) if requested else OMITTED


def cluster_operations(call: Call, requested: bool) -> int:
    """Return the client's operations on the cluster; none for a client that may not describe it."""
    if requested and not DESCRIBE_CLUSTER.allowed(call, logged=False):
        return 0
    return authorized_operations(call, requested, CLUSTER, CLUSTER_NAME)

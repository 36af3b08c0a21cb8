"""Ray actors that consume as members of a group, as many as its lag needs (docs/ray.md)."""

from muster.gateway.client.errors import InvalidConsumer, PoolExists, PoolFailed, PoolNotFound
from muster.gateway.client.pool.starting import Pool, find, start
from muster.gateway.client.pool.status import PoolState, PoolStatus, WorkerState, WorkerStatus
from muster.gateway.client.scaling.sizing import PartitionLag, Sizing

__all__ = [
    "InvalidConsumer",
    "PartitionLag",
    "Pool",
    "PoolExists",
    "PoolFailed",
    "PoolNotFound",
    "PoolState",
    "PoolStatus",
    "Sizing",
    "WorkerState",
    "WorkerStatus",
    "find",
    "start",
]

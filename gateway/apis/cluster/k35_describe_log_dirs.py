"""DescribeLogDirs (api key 35), v1-5: the size of each partition, and of the file system.

v3 error_code | v4 total and usable bytes (KIP-827) | v5 is_cordoned (KIP-1066): never
Brokers share one directory. Each reports the partitions that it leads, so that the sum over brokers is what there is.
On a bucket, a broker sees the copies of its node alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.cluster.log_dirs import Partition, log_dir, sizes_bytes, space
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import DESCRIBE_CLUSTER, the_cluster
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.gateway import Gateway

_FIRST_WITH_ERROR = 3


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    failed = {"error_code": error, "log_dir": str(log_dir(call.gateway)), "topics": []}
    return {"error_code": error, "results": [failed] if call.header.api_version < _FIRST_WITH_ERROR else []}


_GUARD = Guard(Need((DESCRIBE_CLUSTER,), the_cluster), body=lambda _, error: {"error_code": error, "results": ()})


@api(35, "DescribeLogDirs", guard=_GUARD, error_body=_error_body)
async def describe_log_dirs(call: Call) -> Reply | None:
    led = list(_led(call.gateway, call.entity().topics))
    result = await asyncio.to_thread(_described, call.gateway, led)
    return call.reply({"throttle_time": 0, "error_code": ErrorCode.none, "results": [result]})


def _led(gateway: Gateway, named: Any) -> Iterator[Partition]:
    """Yield the partitions that the request names, or all, of those that this gateway leads."""
    view = gateway.view
    wanted = None if named is None else {(topic.topic, each) for topic in named for each in topic.partitions}
    for topic in view.topics.values():
        for partition in range(topic.partitions):
            leader = view.leader_of(topic, partition)
            is_wanted = wanted is None or (topic.name, partition) in wanted
            if is_wanted and leader is not None and leader.id == gateway.id:
                yield topic.name, partition


def _described(gateway: Gateway, partitions: list[Partition]) -> dict[str, Any]:
    """Blocks on the disk."""
    folder = log_dir(gateway)
    result = {"error_code": ErrorCode.none, "log_dir": str(folder), "topics": [], "is_cordoned": False}
    try:
        found, of_files = space(folder), sizes_bytes(folder, partitions)
    except OSError:
        return result | {"error_code": ErrorCode.kafka_storage_error}
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), size_bytes in of_files.items():
        described = {"partition_index": partition, "partition_size": size_bytes}
        topics.setdefault(topic, []).append({**described, "offset_lag": 0, "is_future_key": False})
    return result | {
        "topics": [{"name": name, "partitions": members} for name, members in topics.items()],
        "total_bytes": found.total_bytes,
        "usable_bytes": found.usable_bytes,
    }

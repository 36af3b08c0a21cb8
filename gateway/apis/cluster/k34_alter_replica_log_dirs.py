"""AlterReplicaLogDirs (api key 34), v1-2: there is one log directory, and everything is there already."""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.cluster.log_dirs import log_dir
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER, the_cluster
from muster.gateway.listener.api import Call, Reply, api


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    return _body({wanted: error for wanted, _ in _named(call)})


@api(34, "AlterReplicaLogDirs", guard=Guard(Need((ALTER_CLUSTER,), the_cluster)), error_body=_error_body)
async def alter_replica_log_dirs(call: Call) -> Reply | None:
    here = str(log_dir(call.gateway))
    return call.reply(_body({wanted: _altered(call, *wanted, path == here) for wanted, path in _named(call)}))


def _named(call: Call) -> list[tuple[tuple[str, int], str]]:
    return [
        ((topic.name, partition), each.path)
        for each in call.entity().dirs
        for topic in each.topics
        for partition in topic.partitions
    ]


def _altered(call: Call, name: str, partition: int, is_here: bool) -> ErrorCode:
    if not is_here:
        return ErrorCode.log_dir_not_found
    topic = call.gateway.view.topics.get(name)
    is_known = topic is not None and 0 <= partition < topic.partitions
    return ErrorCode.none if is_known else ErrorCode.unknown_topic_or_partition


def _body(results: dict[tuple[str, int], ErrorCode]) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (name, partition), error in results.items():
        topics.setdefault(name, []).append({"partition_index": partition, "error_code": error})
    results_of = [{"topic_name": name, "partitions": found} for name, found in topics.items()]
    return {"throttle_time": 0, "results": results_of}

"""DescribeQuorum (api key 55), v0-2: the controller as a quorum of one (KIP-595).

v1 times of the last fetch (KIP-836) | v2 error messages, directory ids, nodes (KIP-853)
There is no KRaft quorum. The voter is the broker that Metadata names as the controller, and it has all there is: the
epoch is the controller's, the offset is the version of the view that this gateway has. The listener of the voter has a
name as in Kafka's documentation, but is the one that this client uses.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import DESCRIBE_CLUSTER, the_cluster
from muster.gateway.listener.api import Call, Reply, api

_METADATA_TOPIC = "__cluster_metadata"
_LISTENER = "CONTROLLER"
_NOT_HOSTED = "This server does not host this topic-partition."


def _failed(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "error_message": call.reason, "topics": [], "nodes": []}


@api(55, "DescribeQuorum", guard=Guard(Need((DESCRIBE_CLUSTER,), the_cluster)), error_body=_failed)
async def describe_quorum(call: Call) -> Reply | None:
    request = call.entity()
    topics = await call.each(request.topics, partial(_topic, call))
    is_described = any(not each["error_code"] for topic in topics for each in topic["partitions"])
    body = {"error_code": ErrorCode.none, "error_message": "", "topics": topics}
    return call.reply({**body, "nodes": _nodes(call) if is_described else []})


def _topic(call: Call, topic: Any) -> dict[str, Any]:
    return {
        "topic_name": topic.topic_name,
        "partitions": [
            _quorum(call, each.partition_index)
            if (topic.topic_name, each.partition_index) == (_METADATA_TOPIC, 0)
            else _unknown(each.partition_index)
            for each in topic.partitions
        ],
    }


def _quorum(call: Call, partition: int) -> dict[str, Any]:
    view, now_ms = call.gateway.view, int(time.time() * 1_000)
    controller = view.controller_id
    voter = {
        "replica_id": controller,
        "replica_directory_id": None,
        "log_end_offset": view.version,
        "last_fetch_timestamp": now_ms,
        "last_caught_up_timestamp": now_ms,
    }
    return {
        "partition_index": partition,
        "error_code": ErrorCode.none,
        "error_message": "",
        "leader_id": controller,
        "leader_epoch": view.controller_epoch,
        "high_watermark": view.version,
        "current_voters": [] if controller < 0 else [voter],
        "observers": [],
    }


def _unknown(partition: int) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "error_code": ErrorCode.unknown_topic_or_partition,
        "error_message": _NOT_HOSTED,
        "leader_id": 0,
        "leader_epoch": 0,
        "high_watermark": 0,
        "current_voters": [],
        "observers": [],
    }


def _nodes(call: Call) -> list[dict[str, Any]]:
    view, listener = call.gateway.view, call.connection.listener.name
    return [
        {"node_id": broker.id, "listeners": [{"name": _LISTENER, "host": at.host, "port": at.port}]}
        for broker in view.brokers
        if broker.id == view.controller_id
        for at in (broker.at(listener),)
    ]

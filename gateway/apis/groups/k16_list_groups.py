"""ListGroups (api key 16), v0-5.

A gateway lists the groups of the partitions for which FindCoordinator returns it, as a Kafka broker lists those
that it leads; an admin client queries all of them. If one of these partitions is down, the whole response is an
error (COORDINATOR_LOAD_IN_PROGRESS), as while a Kafka broker loads.
"""

from __future__ import annotations

import asyncio
from itertools import compress

from muster.actors.wire.internal.channel import Channel, ChannelLost
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.coordinators import REQUEST_TIMEOUT_S, Listed, listed
from muster.gateway.apis.groups.forwarding import error_body
from muster.gateway.apis.guards.guard import Guard
from muster.gateway.apis.guards.rights import DESCRIBE_CLUSTER, DESCRIBE_GROUP
from muster.gateway.listener.api import Call, Reply, Rule, api

LIST_GROUPS = 16


_GUARD = Guard(inside=(Rule((DESCRIBE_CLUSTER, DESCRIBE_GROUP), "", None),))


@api(LIST_GROUPS, "ListGroups", guard=_GUARD, error_body=error_body, one_at_a_time=True)
async def list_groups(call: Call) -> Reply | None:
    call.entity()
    gateway = call.gateway
    mine = [
        partition
        for partition in gateway.view.offsets
        if (broker := gateway.view.coordinator_of(partition)) is not None and broker.id == gateway.id
    ]
    channels = dict(zip(mine, await asyncio.gather(*map(gateway.coordinator, mine)), strict=True))
    failed, groups = await listed(mine, lambda partition: _list(call, channels[partition]))
    return call.reply_joined({"throttle_time": 0, "error_code": failed, "groups": ()}, groups)


async def _list(call: Call, channel: Channel | None) -> Listed:
    if channel is None:
        return ErrorCode.coordinator_load_in_progress, []
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            frame = await channel.call(call.connection.context, call.frame)
    except (ChannelLost, TimeoutError):
        return ErrorCode.coordinator_load_in_progress, []
    version = call.header.api_version
    _, response = codec.decode_response(LIST_GROUPS, version, frame)
    groups = codec.split_response(LIST_GROUPS, version, frame)
    if not DESCRIBE_CLUSTER.allowed(call, logged=False):
        seen = [DESCRIBE_GROUP.allowed(call, group.group_id, logged=False) for group in response.groups]
        groups = [*compress(groups, seen)]
    return response.error_code, groups

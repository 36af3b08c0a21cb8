"""Forwarding of group requests to the actor that owns the group, and what is answered when it is down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from muster.actors.group.apis.arguments import check_arguments
from muster.actors.group.codec import adapters
from muster.actors.group.errors import Refused
from muster.actors.wire import codec
from muster.actors.wire.channel import ChannelLost
from muster.actors.wire.codec import ErrorCode
from muster.gateway.listener.registry import Call, Reply
from muster.placement.client import Context

log = logging.getLogger(__name__)

ANSWER_S = 10.0
"""How long an actor may take for what it does not park; it answers slow writes itself, after 5 s."""
JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 11, 12, 14
EVIDENCE = frozenset((8, 9, 11, 12, 14))
"""OffsetCommit, OffsetFetch, JoinGroup, Heartbeat, SyncGroup: only a consumer of the group sends them."""


def down_error(call: Call) -> ErrorCode:
    """What a client is told while its group's actor is down or starts: Kafka's words for "loading".

    What is wrong with the request itself is said before that, as by Kafka. A heartbeat is answered NONE, as by a
    Kafka broker that still loads the partition, so that members survive. SyncGroup says NOT_COORDINATOR, since
    clients (the Java consumer) take "loading" there as fatal.
    """
    header = call.header
    request = adapters.decode(header.api_key, header.api_version, call.entity())
    context = Context(client_id=header.client_id, host=call.connection.host)
    try:
        check_arguments(call.gateway.group_config, request, context)
    except Refused as refused:
        return refused.error
    if header.api_key == HEARTBEAT:
        return ErrorCode.none
    return ErrorCode.not_coordinator if header.api_key == SYNC_GROUP else ErrorCode.coordinator_load_in_progress


async def forward_whole(call: Call) -> Reply | None:
    """Forward a request about one group as it came; what cannot be read stops here and harms no other client."""
    request, header = call.entity(), call.header
    if header.api_key in EVIDENCE:
        saw_group(call, request.group_id)
    frame = await ask_coordinator(call, request.group_id, call.frame)
    if frame is not None:
        return Reply(frame)
    return call.reply(adapters.error_body(header.api_key, header.api_version, request, down_error(call)))


def saw_group(call: Call, group_id: str) -> None:
    """Evidence for attribution: this connection works for that group."""
    connection = call.connection
    call.gateway.account.group_request(connection.attribution, connection.host, call.header.client_id, group_id)


async def ask_coordinator(call: Call, group_id: str, frame: bytes) -> bytes | None:
    """The answer of the group's actor to a frame; None when it is down or was lost on the way."""
    gateway = call.gateway
    partition = gateway.partition_of(group_id)
    channel = gateway.forwarder.offsets(partition)
    if channel is None:
        if gateway.view.offsets.get(partition) is None:
            gateway.activate(partition)
        return None
    try:
        async with asyncio.timeout(_answer_s(call)):
            return await channel.call(call.connection.context, frame)
    except (ChannelLost, TimeoutError):
        gateway.metrics.forward_error(f"offsets-{partition}")
        return None


def _answer_s(call: Call) -> float:
    """How long the answer may take. JoinGroup and SyncGroup wait for other members: for as long as this one may.

    A client waits for a join until its rebalance timeout is over, and a little more; it is no member any more when
    its session is, and SyncGroup does not say how long that is.
    """
    parked_s = 0.0
    if call.header.api_key == JOIN_GROUP:
        request = call.entity()
        longest = max(request.session_timeout, getattr(request, "rebalance_timeout", request.session_timeout))
        parked_s = max(0.0, longest.total_seconds())
    elif call.header.api_key == SYNC_GROUP:
        parked_s = call.gateway.group_config.group_max_session_timeout_ms / 1000
    return parked_s + ANSWER_S


async def ask_each(
    call: Call, groups: Iterable[str | None], body_of: Any, version: int
) -> list[tuple[list[str | None], bytes | None]]:
    """Split a request about several groups by their partitions: (groups, response frame or None) for each."""
    gateway, header = call.gateway, call.header
    parts: dict[int, list[str | None]] = {}
    for group_id in dict.fromkeys(groups):
        parts.setdefault(gateway.partition_of(group_id or ""), []).append(group_id)

    async def ask(members: list[str | None]) -> tuple[list[str | None], bytes | None]:
        frame = codec.encode_request(header.api_key, version, header.correlation_id, header.client_id, body_of(members))
        return members, await ask_coordinator(call, members[0] or "", frame)

    return list(await asyncio.gather(*(ask(members) for members in parts.values())))

"""WriteTxnMarkers (api key 27), v1-2: ends transactions in partitions, as administrators do with hanging ones.

v2 transaction version (KIP-1228)
Muster's own coordinators send their markers to the logs themselves. These are always executed, like any marker whose
epochs are not older than what the partition knows. The response follows once they are durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from muster.actors.wire.internal.channel import Channel, ChannelLost
from muster.actors.wire.internal.markers import NO_DECISION, Marked, Marker
from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER, CLUSTER_ACTION, the_cluster
from muster.gateway.apis.partitions import Named, by_topic, existence_error, named, owner_of
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.forward import ActorKey

_TIMEOUT_S = 30.0
_NO_COORDINATOR = 0
"""In place of a coordinator's partition."""


class _Wanted(NamedTuple):
    """A marker and its partitions."""

    marker: Any
    partitions: list[Named]


class _Part(NamedTuple):
    """The part of a marker that one actor executes."""

    marker: int
    """Its index in the request."""
    partitions: list[Named]


_Results = list[dict[Any, ErrorCode]]
"""For each marker of the request, by the keys of its partitions."""


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    wanted = _wanted(call)
    return _body(wanted, [{partition.key: error for partition in partitions} for _, partitions in wanted])


@api(27, "WriteTxnMarkers", guard=Guard(Need((ALTER_CLUSTER, CLUSTER_ACTION), the_cluster)), error_body=_error_body)
async def write_txn_markers(call: Call) -> Reply | None:
    wanted = _wanted(call)
    results: _Results = [{} for _ in wanted]
    owners: dict[ActorKey, list[_Part]] = {}
    for index, (_, partitions) in enumerate(wanted):
        for owner, owned in _by_owner(call, partitions, results[index]).items():
            owners.setdefault(owner, []).append(_Part(index, owned))
    await asyncio.gather(*(_mark(call, owner, parts, wanted, results) for owner, parts in owners.items()))
    return call.reply(_body(wanted, results))


def _wanted(call: Call) -> list[_Wanted]:
    return [
        _Wanted(
            marker,
            [
                named(call.gateway, topic.name, None, partition)
                for topic in marker.topics
                for partition in topic.partition_indexes
            ],
        )
        for marker in call.entity().markers
    ]


def _by_owner(call: Call, partitions: list[Named], results: dict[Any, ErrorCode]) -> dict[ActorKey, list[Named]]:
    """Return the partitions by the actor that owns them; those that do not exist fail."""
    owners: dict[ActorKey, list[Named]] = {}
    for partition in {each.key: each for each in partitions}.values():
        if (error := existence_error(partition)) is not None:
            results[partition.key] = error
        else:
            assert partition.topic is not None
            owners.setdefault(owner_of(call.gateway, partition.topic, partition.partition), []).append(partition)
    return owners


async def _mark(call: Call, owner: ActorKey, parts: list[_Part], wanted: list[_Wanted], results: _Results) -> None:
    """Have an actor execute its parts. Whether a lost one did is unknown, but a marker may be repeated."""
    marked: Marked | ChannelLost = ChannelLost("down")
    channel = await _channel(call, owner)
    if channel is not None:
        response: asyncio.Future[Marked | ChannelLost] = asyncio.get_running_loop().create_future()
        markers = [_marker(wanted[part.marker].marker, part.partitions) for part in parts]

        def on_marked(found: Marked | ChannelLost) -> None:
            if not response.done():  # cancelled when the client goes; the task may end after the response arrives
                response.set_result(found)

        token = channel.mark(markers, on_marked, timeout_s=_TIMEOUT_S)
        try:
            marked = await response
        finally:
            channel.cancel(token)
    for number, (index, partitions) in enumerate(parts):
        codes: Sequence[ErrorCode] = [ErrorCode.not_leader_or_follower] * len(partitions)
        if not isinstance(marked, ChannelLost):
            codes = marked[number]
        results[index].update(zip((partition.key for partition in partitions), codes, strict=True))


async def _channel(call: Call, owner: ActorKey) -> Channel | None:
    """Return the channel to an actor; a coordinator is started if it never ran."""
    kind, index = owner
    if kind == "log":
        return await call.gateway.forwarder.soon(owner)
    return await call.gateway.coordinator(index, kind)


def _marker(marker: Any, partitions: list[Named]) -> Marker:
    return Marker(
        int(marker.producer_id),
        int(marker.producer_epoch),
        int(marker.coordinator_epoch),
        bool(marker.transaction_result),
        int(field(marker, "transaction_version", 0)),
        NO_DECISION,
        _NO_COORDINATOR,
        [(partition.topic.topic_id, partition.partition) for partition in partitions if partition.topic is not None],
    )


def _body(wanted: list[_Wanted], results: _Results) -> dict[str, Any]:
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {"partition_index": each.partition, "error_code": errors[each.key]} for each in members
                        ],
                    }
                    for topic, members in by_topic(partitions)
                ],
            }
            for (marker, partitions), errors in zip(wanted, results, strict=True)
        ]
    }

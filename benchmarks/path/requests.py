"""The requests whose paths are counted: what each needs before it, and the frames of each step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.comparison import requests as frames
from benchmarks.members import assignment, subscription
from benchmarks.path.world import FEW, NOT_SYNCED, PARTITIONS, SESSION_TIMEOUT_MS, SYNCED, Client, Refused, World
from muster.actors.log.format.records import build_batch
from muster.actors.runtime.process import wall_ms
from tests.raw_client import ApiVersion

CONSUMER_GROUP_HEARTBEAT: ApiVersion = (68, 1)
_GROUP = "group"
_MEMBERS = 5
_PIPELINED = 20
_KIB = 1024
_BATCH_OVERHEAD_BYTES = 80
_SMALL, _LARGE = 1, 2
"""Partitions that are read: batches of 16 and of 64 KiB."""
_BATCHES = 16


@dataclass(frozen=True, slots=True)
class Burst:
    """Requests of one API that are sent at once. All are answered before the next burst."""

    api: ApiVersion
    sends: Sequence[tuple[Client, Sequence[bytes]]]
    is_counted: bool = True

    @property
    def size(self) -> int:
        return sum(len(requests) for _, requests in self.sends)


Steps = Callable[[int], Sequence[Burst]]
"""Function that returns the bursts of step 0, 1, ..., exactly one of which is counted."""


@dataclass(frozen=True, slots=True)
class Request:
    name: str
    title: str
    prepare: Callable[[World], Awaitable[Steps]]


@dataclass(frozen=True, slots=True)
class _Member:
    client: Client
    id: str
    generation: int


async def _form(world: World, count: int = 1, topic: str = SYNCED, partition: int = 0) -> list[_Member]:
    """Form the group with so many members, each on a connection of its own; the leader is the first."""
    clients = [await world.connect() for _ in range(count)]
    ids = [await _new_id(client, topic) for client in clients]
    joins = [client.call(frames.JOIN_GROUP, _join(each, topic, 60)) for client, each in zip(clients, ids, strict=True)]
    joined = await asyncio.gather(*joins)
    if len({each.generation_id for each in joined}) > 1:
        raise RuntimeError("the members have joined too late")
    generation = joined[0].generation_id
    members = [_Member(client, each, generation) for client, each in zip(clients, ids, strict=True)]
    members.sort(key=lambda member: member.id != joined[0].leader)
    given = [(each, assignment(topic, [partition])) for each in ids]
    syncs = [
        each.client.call(frames.SYNC_GROUP, frames.sync(_GROUP, generation, each.id, [] if number else given))
        for number, each in enumerate(members)
    ]
    await asyncio.gather(*syncs)
    return members


async def _new_id(client: Client, topic: str) -> str:
    try:
        await client.call(frames.JOIN_GROUP, _join("", topic, 60))
    except Refused as error:  # KIP-394: it has to come back with the id that it got
        return str(error.args[1].member_id)
    raise RuntimeError("a member without an id was admitted")


def _join(member_id: str, topic: str, padding_bytes: int) -> bytes:
    return frames.join(_GROUP, member_id, subscription(topic, padding_bytes), SESSION_TIMEOUT_MS)


def _always(api: ApiVersion, client: Client, *requests: bytes) -> Steps:
    burst = Burst(api, [(client, requests)])
    return lambda step: [burst]


async def _commit(partitions: int, at_once: int, world: World) -> Steps:
    (member,) = await _form(world)
    frame = frames.commit(_GROUP, member.generation, member.id, SYNCED, range(partitions), 1_000)
    return _always(frames.OFFSET_COMMIT, member.client, *[frame] * at_once)


async def _offset_fetch(partitions: int, world: World) -> Steps:
    (member,) = await _form(world)
    commit = frames.commit(_GROUP, member.generation, member.id, SYNCED, range(partitions), 1_000)
    await member.client.call(frames.OFFSET_COMMIT, commit)
    fetch = frames.offset_fetch(_GROUP, SYNCED, range(partitions))
    return _always(frames.OFFSET_FETCH, member.client, fetch)


async def _heartbeat(world: World) -> Steps:
    (member,) = await _form(world)
    return _always(frames.HEARTBEAT, member.client, frames.heartbeat(_GROUP, member.generation, member.id))


async def _rebalance(is_join_counted: bool, world: World) -> Steps:
    """Every member joins with another subscription than before, then all sync."""
    members = await _form(world, _MEMBERS)
    given = [(member.id, assignment(SYNCED, [0])) for member in members]

    def steps(step: int) -> list[Burst]:
        generation = members[0].generation + 1 + step
        joins = [(member.client, [_join(member.id, SYNCED, 61 - step % 2)]) for member in members]
        syncs = [
            (member.client, [frames.sync(_GROUP, generation, member.id, [] if number else given)])
            for number, member in enumerate(members)
        ]
        return [
            Burst(frames.JOIN_GROUP, joins, is_join_counted),
            Burst(frames.SYNC_GROUP, syncs, not is_join_counted),
        ]

    return steps


def _consumer_heartbeat(member_id: str, epoch: int, **news: Any) -> bytes:
    body = {"group_id": _GROUP, "member_id": member_id, "member_epoch": epoch, "topic_partitions": None}
    return frames.frame(CONSUMER_GROUP_HEARTBEAT, {**body, **news})


def _consumer_joins(member_id: str) -> bytes:
    news = {"rebalance_timeout": 300_000, "subscribed_topic_names": [FEW], "topic_partitions": []}
    return _consumer_heartbeat(member_id, 0, **news)


async def _consumer_steady(world: World) -> Steps:
    client = await world.connect()
    joined = await client.call(CONSUMER_GROUP_HEARTBEAT, _consumer_joins("member"))
    own = [
        {"topic_id": each.topic_id, "partitions": list(each.partitions)} for each in joined.assignment.topic_partitions
    ]
    has_all = _consumer_heartbeat("member", joined.member_epoch, topic_partitions=own)
    await client.call(CONSUMER_GROUP_HEARTBEAT, has_all)
    return _always(CONSUMER_GROUP_HEARTBEAT, client, _consumer_heartbeat("member", joined.member_epoch))


async def _consumer_joining(world: World) -> Steps:
    client = await world.connect()

    def steps(step: int) -> list[Burst]:
        joins, leaves = _consumer_joins(f"member-{step:04}"), _consumer_heartbeat(f"member-{step:04}", -1)
        api = CONSUMER_GROUP_HEARTBEAT
        return [Burst(api, [(client, [joins])]), Burst(api, [(client, [leaves])], is_counted=False)]

    return steps


def _batch(size_bytes: int) -> bytes:
    return bytes(build_batch([(None, bytes(size_bytes - _BATCH_OVERHEAD_BYTES))], wall_ms(), 0, -1))


async def _produce(topic: str, world: World) -> Steps:
    client = await world.connect()
    return _always(frames.PRODUCE, client, frames.produce(topic, 0, _batch(16 * _KIB)))


async def _fetch(partition: int, batch_bytes: int, batches: int, world: World) -> Steps:
    """Read from the page cache, as the member that the partition is assigned to."""
    (member,) = await _form(world, topic=NOT_SYNCED, partition=partition)
    produce = frames.produce(NOT_SYNCED, partition, _batch(batch_bytes))
    for _ in range(_BATCHES):
        await member.client.call(frames.PRODUCE, produce)

    def steps(step: int) -> list[Burst]:
        offset = step * batches % _BATCHES
        return [Burst(frames.FETCH, [(member.client, [frames.fetch(NOT_SYNCED, partition, offset, size_bytes)])])]

    size_bytes = batch_bytes * batches
    (response,) = await member.client.send(steps(0)[0].sends[0][1])
    if not size_bytes - batch_bytes < len(response) < size_bytes + _KIB:
        raise RuntimeError(f"a response of {len(response):,} bytes instead of {size_bytes:,}")
    return steps


_FEW = PARTITIONS[FEW]
REQUESTS = (
    Request("produce", "Produce of 16 KiB, synced", partial(_produce, SYNCED)),
    Request("produce-not-synced", "Produce of 16 KiB, not synced", partial(_produce, NOT_SYNCED)),
    Request("fetch", "Fetch of 16 KiB, page cache", partial(_fetch, _SMALL, 16 * _KIB, 1)),
    Request("fetch-1-mib", "Fetch of 1 MiB in 16 batches, page cache", partial(_fetch, _LARGE, 64 * _KIB, _BATCHES)),
    Request("commit", "OffsetCommit of 1 partition", partial(_commit, 1, 1)),
    Request("commit-at-once", f"the same, {_PIPELINED} at once", partial(_commit, 1, _PIPELINED)),
    Request("commit-50", "OffsetCommit of 50 partitions", partial(_commit, 50, 1)),
    Request("offset-fetch", "OffsetFetch of 100 partitions", partial(_offset_fetch, 100)),
    Request("join", f"JoinGroup, rebalance of {_MEMBERS} members", partial(_rebalance, True)),
    Request("sync", "SyncGroup, the same rebalance", partial(_rebalance, False)),
    Request("heartbeat", "Heartbeat", _heartbeat),
    Request("consumer-heartbeat", "ConsumerGroupHeartbeat", _consumer_steady),
    Request("consumer-join", f"ConsumerGroupHeartbeat, joins {_FEW} partitions", _consumer_joining),
)

"""Topics, their partitions and readers, as JSON, at most a second old where groups are concerned.

``GET /v1/topics?limit=N&offset=N``: ``{"topics": [{"topic", "topic_id", "partitions", "internal", "messages",
"size_bytes", "groups", "behind"}], "total", "offset", "limit", "partial", "missing_partitions", "missing_actors"}``, by
name, without topics that the caller may not DESCRIBE. ``groups`` is how many groups read the topic, and ``behind`` how
many of them have a lag there, of those that the caller may DESCRIBE.
``GET /v1/topics/describe?topic=T``: ``{"topic", "topic_id", "internal", "partitions": [{"partition", "leader", "log",
"start_offset", "end_offset", "messages", "size_bytes"}], "config", "groups": [{"group", "state", "members",
"partitions", "lag", "lag_s"}], "partial", ...}``. ``leader`` is a gateway's id, ``log`` the actor. ``groups`` have
committed offsets of the topic, or members with partitions of it: the thousand that are furthest behind, of
``groups_total``.

Rights are Kafka's: ``config``, what is set on the topic, is null without DESCRIBE_CONFIGS on it, and ``size_bytes``
without DESCRIBE on the cluster, as DescribeLogDirs needs it. Values are null where a log does not respond; then
``partial`` is true. Partitions of internal topics that were never used are not counted.

Errors are those of :mod:`muster.gateway.http.groups`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from aiohttp import web

from muster.gateway.apis.admin import INTERNAL_TOPICS
from muster.gateway.apis.cluster.log_dirs import log_dir, sizes_bytes
from muster.gateway.apis.partitions import owner_of
from muster.gateway.http.callers import Caller, current_caller
from muster.gateway.http.groups import Failed, as_json, number, required
from muster.gateway.lag.ends import Ends, ends_of
from muster.gateway.lag.groups import in_turns
from muster.gateway.lag.partitions import TopicPartition, oldest_first
from muster.gateway.lag.shared import REQUEST_TIMEOUT_S, Picture, SharedLags, TopicReader
from muster.gateway.listener.gateway import Gateway
from muster.placement.security.acls import AclOperation, AclResourceType
from muster.placement.view import COORDINATORS, OFFSETS, ClusterView, Topic

DEFAULT_LIMIT, LARGEST_LIMIT = 100, 1_000
"""Topics on a page."""


def add_routes(app: web.Application, gateway: Gateway, shared: SharedLags) -> None:
    """Serve the routes of this module; the app has not been started yet."""

    async def topics(request: web.Request) -> dict[str, Any]:
        limit = number(request, "limit", DEFAULT_LIMIT, 1, LARGEST_LIMIT)
        offset = number(request, "offset", 0, 0, 10**9 - 1)
        caller = current_caller()
        known = gateway.view.topics
        seen = await asyncio.to_thread(lambda: sorted(filter(caller.sees_topic, known)))
        page = [known[name] for name in seen[offset : offset + limit]]
        picture, ends, sizes = await _found(gateway, shared, page, caller)
        sees_group = cache(caller.sees_group)
        rows = [
            {**_summary(topic, gateway.view, ends, sizes), **await _reading(picture, topic, sees_group)}
            for topic in page
        ]
        return {"topics": rows, "total": len(seen), "offset": offset, "limit": limit, **_missing(picture, ends)}

    async def describe(request: web.Request) -> dict[str, Any]:
        name, caller = required(request, "topic"), current_caller()
        topic = gateway.view.topics.get(name)
        if topic is None:
            raise Failed(404, f"unknown topic {name}")
        picture, ends, sizes = await _found(gateway, shared, [topic], caller)
        readers = [_reader(each) async for each in _readers(picture, name, caller.sees_group)]
        sees_config = caller.sees(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, name)
        partitions = [_partition(gateway, topic, index, ends, sizes) for index in range(topic.partitions)]
        return {
            "topic": name,
            "topic_id": str(topic.topic_id),
            "internal": name in INTERNAL_TOPICS,
            "partitions": partitions,
            "config": dict(topic.config) if sees_config else None,
            "groups": sorted(readers, key=oldest_first)[:LARGEST_LIMIT],
            "groups_total": len(readers),
            **_missing(picture, ends),
        }

    app.router.add_get("/v1/topics", as_json(topics))
    app.router.add_get("/v1/topics/describe", as_json(describe))


Sizes = Mapping[TopicPartition, int]


async def _found(
    gateway: Gateway, shared: SharedLags, topics: Sequence[Topic], caller: Caller
) -> tuple[Picture, Ends, Sizes | None]:
    """Return the groups, the ends of these topics' logs, and their sizes, None if the caller may not know them."""
    used = [each for topic in topics for each in _used(gateway.view, topic)]
    return await asyncio.gather(
        shared.picture(),
        ends_of(gateway, dict.fromkeys(used, ()), REQUEST_TIMEOUT_S),
        _sizes(gateway, used if caller.sees_cluster() else None),
    )


def _used(view: ClusterView, topic: Topic) -> Iterator[TopicPartition]:
    """Yield the topic's partitions that have a log."""
    kind = COORDINATORS.get(topic.name)
    started = None if kind is None else view.offsets if kind == OFFSETS else view.transactions
    for index in range(topic.partitions):
        if started is None or index in started:
            yield topic.name, index


async def _sizes(gateway: Gateway, partitions: Iterable[TopicPartition] | None) -> Sizes | None:
    if partitions is None:
        return None
    try:
        return await asyncio.to_thread(sizes_bytes, log_dir(gateway), partitions)
    except OSError as error:
        raise Failed(503, f"sizes of logs cannot be read: {error.strerror}") from error


def _summary(topic: Topic, view: ClusterView, ends: Ends, sizes: Sizes | None) -> dict[str, Any]:
    used = list(_used(view, topic))
    known = [count for each in used if (count := ends.messages(each)) is not None]
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id),
        "partitions": topic.partitions,
        "internal": topic.name in INTERNAL_TOPICS,
        "messages": sum(known) if known or not used else None,
        "size_bytes": None if sizes is None else sum(sizes.get(each, 0) for each in used),
    }


async def _reading(picture: Picture, topic: Topic, sees_group: Callable[[str], bool]) -> dict[str, int]:
    """Return how many groups read the topic, and how many of them are behind."""
    behind = [any(row.lag for row in each.partitions) async for each in _readers(picture, topic.name, sees_group)]
    return {"groups": len(behind), "behind": sum(behind)}


def _partition(gateway: Gateway, topic: Topic, index: int, ends: Ends, sizes: Sizes | None) -> dict[str, Any]:
    leader, key = gateway.view.leader_of(topic, index), (topic.name, index)
    kind, owner = owner_of(gateway, topic, index)
    end = ends.by_partition.get(key)
    return {
        "partition": index,
        "leader": None if leader is None else leader.id,
        "log": f"{kind}-{owner}",
        "start_offset": None if end is None else end.start_offset,
        "end_offset": None if end is None else end.end_offset,
        "messages": ends.messages(key),
        "size_bytes": None if sizes is None else sizes.get(key, 0),
    }


async def _readers(picture: Picture, topic: str, sees_group: Callable[[str], bool]) -> AsyncIterator[TopicReader]:
    async for each in in_turns(picture.readers.get(topic, ())):
        if sees_group(each.group.group):
            yield each


def _reader(reader: TopicReader) -> dict[str, Any]:
    total = reader.total
    return {
        "group": reader.group.group,
        "state": reader.group.state,
        "members": reader.group.members,
        "partitions": len(reader.partitions) + len(reader.without_commit),
        "lag": total.lag,
        "lag_s": total.lag_s,
    }


def _missing(picture: Picture, ends: Ends) -> dict[str, Any]:
    """Return who does not respond; a group's log that is silent has no lag."""
    silent = sorted({*picture.lags.silent, *ends.silent})
    return {
        "partial": bool(picture.lags.missing_partitions or silent),
        "missing_partitions": picture.lags.missing_partitions,
        "missing_actors": silent,
    }

"""The sources of the audit over Ray: ``offsets-<p>``, ``gateway-<id>`` and ``log-<i>``, by their names."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError

from muster.actors.audit.auditor import Received, Runs, Steps
from muster.actors.audit.members import Members
from muster.actors.audit.report import Report
from muster.actors.log.cumulative_size import CumulativeSizes, TopicPartition
from muster.placement.hashing import partition_for
from muster.placement.view import OFFSETS_TOPIC, ClusterView

log = logging.getLogger(__name__)

K = TypeVar("K")
_REQUEST_TIMEOUT_S = 10.0


class RaySources:
    """An :class:`muster.actors.audit.auditor.Sources`. Standbys are not queried for commits: these are ``unknown``."""

    def __init__(self, namespace: str, view: Callable[[], ClusterView]) -> None:
        self._namespace = namespace
        self._view = view

    def gateways(self) -> Collection[int]:
        return {broker.id for broker in self._view().brokers}

    def partitions(self) -> Iterable[TopicPartition]:
        topics = self._view().topics.values()
        return [(topic.name, each) for topic in topics if not topic.internal for each in range(topic.partitions)]

    async def steps(self, session: str, received: Received) -> Steps:
        active = [partition for partition, endpoint in self._view().offsets.items() if endpoint is not None]
        calls = {each: self._call(f"offsets-{each}", "audit_steps", session, received.get(each, 0)) for each in active}
        return await _responses(calls)

    async def runs(self, session: str, received: Received) -> Runs:
        calls = {
            each: self._call(f"gateway-{each}", "audit_runs", session, received.get(each, 0))
            for each in self.gateways()
        }
        return await _responses(calls)

    async def members(self, groups: Collection[str]) -> Members:
        topic = self._view().topics[OFFSETS_TOPIC]
        by_partition: defaultdict[int, list[str]] = defaultdict(list)
        for group in groups:
            by_partition[partition_for(group, topic.partitions)].append(group)
        calls = {each: self._call(f"offsets-{each}", "audit_members", known) for each, known in by_partition.items()}
        return {group: periods for found in (await _responses(calls)).values() for group, periods in found.items()}

    async def cumulative_sizes(
        self, queries: Mapping[TopicPartition, tuple[int, ...]]
    ) -> Mapping[TopicPartition, CumulativeSizes]:
        view = self._view()
        by_log: defaultdict[int, list[tuple[TopicPartition, tuple[int, ...]]]] = defaultdict(list)
        for (name, partition), offsets in queries.items():
            if (topic := view.topics.get(name)) is not None:
                by_log[view.log_of(topic, partition)].append(((name, partition), offsets))
        found: dict[TopicPartition, CumulativeSizes] = {}
        responses = await _responses({index: self._of_log(f"log-{index}", wanted) for index, wanted in by_log.items()})
        for response in responses.values():
            found.update(response)
        return found

    async def publish(self, report: Report) -> None:
        shared = await asyncio.to_thread(ray.put, report)
        await _responses({each: self._call(f"gateway-{each}", "take_audit", shared) for each in self.gateways()})

    async def _of_log(self, name: str, wanted: list[tuple[TopicPartition, tuple[int, ...]]]) -> Any:
        """Return the cumulative sizes from the log actor, or from the standby that serves in its place."""
        try:
            return await self._call(name, "audit_cumulative_sizes", wanted)
        except (RayError, TimeoutError, ValueError):
            actors = await asyncio.to_thread(ray.util.list_named_actors, True)
            names = [actor["name"] for actor in actors if actor["namespace"] == self._namespace]
            standbys = [each for each in names if each.startswith("standby-")]
            calls = {each: self._call(each, "audit_cumulative_sizes", name, wanted) for each in standbys}
            for response in (await _responses(calls)).values():
                return response
            raise

    async def _call(self, name: str, method: str, *arguments: Any) -> Any:
        handle = await asyncio.to_thread(ray.get_actor, name, self._namespace)
        async with asyncio.timeout(_REQUEST_TIMEOUT_S):
            return await getattr(handle, method).remote(*arguments)


async def _responses(calls: Mapping[K, Awaitable[Any]]) -> dict[K, Any]:
    """Return the results of the calls without an error."""
    responses = await asyncio.gather(*calls.values(), return_exceptions=True)
    found: dict[K, Any] = {}
    for key, response in zip(calls, responses, strict=True):
        if isinstance(response, (RayError, TimeoutError, ValueError)):
            log.debug("%s does not answer the audit: %r", key, response)
        elif isinstance(response, BaseException):
            raise response
        else:
            found[key] = response
    return found

"""A log actor's requests: Produce v13, Fetch v16, ListOffsets v10, as gateways send them.

Gateways translate every client's version to these. Requests are kio entities, answers the dicts that
``actors.wire.codec.encode_response`` takes; every error is in the answer, none is raised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from actors.log import fetch as fetching
from actors.log import progress
from actors.log.config import LogConfig
from actors.log.errors import (
    InvalidRequiredAcks,
    LogError,
    NotLeader,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from actors.log.partition import Append, AppendResult, PartitionLog
from actors.log.partitions import Partitions
from actors.wire.codec import ErrorCode
from placement.view import ClusterView, Topic

_NOWHERE = -1


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class LogService:
    """The partitions of one log actor, each opened on its first use. For one event loop."""

    def __init__(
        self,
        *,
        storage: Path,
        config: LogConfig,
        topics: Callable[[], ClusterView],
        index: int,
        next_epoch: Callable[[str, int], Awaitable[int]],
        now_ms: Callable[[], int] = _now_ms,
    ) -> None:
        """``index`` is the log actor's own; ``next_epoch(topic, partition)`` never gives an epoch twice."""
        self._view_of = topics
        self._index = index
        self._now_ms = now_ms
        self._partitions = Partitions(storage / "logs", config, next_epoch, now_ms)
        self._routed_by: ClusterView | None = None
        self._owned: dict[tuple[UUID, int], Topic] = {}
        self._seen: ClusterView | None = None

    async def produce(self, entity: Any) -> dict[str, Any]:
        """Produce v13. Batches get their place in the order in which this was called, partition by partition.

        Answers when all that was accepted is durable; with acks=0 at once.
        """
        pending = [
            (
                topic.topic_id,
                [(part.index, self._submit(entity.acks, topic.topic_id, part)) for part in topic.partition_data],
            )
            for topic in entity.topic_data
        ]
        responses = []
        for topic_id, parts in pending:
            answers = [await self._answer(index, outcome, entity.acks != 0) for index, outcome in parts]
            responses.append({"topic_id": topic_id, "partition_responses": answers})
        return {"responses": responses, "throttle_time": 0}

    def _submit(self, acks: int, topic_id: UUID | None, part: Any) -> asyncio.Future[tuple[PartitionLog, Append]]:
        records = part.records or b""
        try:
            if acks not in (-1, 0, 1):
                raise InvalidRequiredAcks(f"acks {acks}")
            topic = self._topic(topic_id, part.index)
        except LogError as error:
            refused: asyncio.Future[tuple[PartitionLog, Append]] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            refused.exception()
            return refused
        return self._partitions.use(topic, part.index, lambda log: (log, log.enqueue(records)))

    @staticmethod
    async def _answer(
        index: int, outcome: asyncio.Future[tuple[PartitionLog, Append]], acks_durable: bool
    ) -> dict[str, Any]:
        try:
            log, append = await outcome
            return _produced(index, await log.finish(append, acks_durable=acks_durable))
        except LogError as error:
            return _refused(index, error)

    async def fetch(self, entity: Any) -> dict[str, Any]:
        """Fetch v16: see ``actors.log.fetch.fetch``."""
        return await fetching.fetch(entity, self._log_by_id)

    async def list_offsets(self, entity: Any) -> dict[str, Any]:
        """ListOffsets v10: see ``actors.log.fetch.list_offsets``."""
        return await fetching.list_offsets(entity, self._log_by_name)

    async def append_times(self, question: dict[str, Any]) -> dict[str, Any]:
        """How far readers are behind: see ``actors.log.progress.append_times``."""
        return await progress.append_times(question, self._log_by_name, self._now_ms)

    async def view_changed(self, view: ClusterView) -> None:
        """Remove the partitions of topics that are gone since the last view; follow the configuration of the others.

        What was deleted while this actor was not running is not noticed.
        """
        before = self._seen
        if before is not None and view.order <= before.order:
            return
        self._seen = view
        for topic in view.topics.values():
            self._partitions.reconfigure(topic)
        gone = [topic for topic in before.topics.values() if view.topic_by_id(topic.topic_id) is None] if before else []
        for topic in gone:
            for partition in range(topic.partitions):
                if not topic.internal and view.log_of(topic, partition) == self._index:
                    await self._partitions.delete(topic, partition)

    async def close(self) -> None:
        """Make durable what was accepted and close all partitions. Later requests get NOT_LEADER_OR_FOLLOWER."""
        await self._partitions.close()

    async def _log_by_id(self, topic_id: UUID, partition: int) -> PartitionLog:
        return await self._partitions.use(self._topic(topic_id, partition), partition, lambda log: log)

    async def _log_by_name(self, name: str, partition: int) -> PartitionLog:
        topic = self._view().topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"no topic {name}")
        return await self._log_by_id(topic.topic_id, partition)

    def _view(self) -> ClusterView:
        """The current view; what was derived from the one before is forgotten."""
        view = self._view_of()
        if view is not self._routed_by:
            self._routed_by = view
            self._owned.clear()
            self._seen = self._seen or view
        return view

    def _topic(self, topic_id: UUID | None, partition: int) -> Topic:
        """The topic of a partition that is this actor's. LogError if it is not."""
        view = self._view()
        if topic_id is None:
            raise UnknownTopicId("no topic id")
        owned = self._owned.get((topic_id, partition))
        if owned is None:
            owned = self._owned[topic_id, partition] = self._check_owned(view, topic_id, partition)
        return owned

    def _check_owned(self, view: ClusterView, topic_id: UUID, partition: int) -> Topic:
        topic = view.topic_by_id(topic_id)
        if topic is None:
            raise UnknownTopicId(f"no topic with id {topic_id}")
        if not 0 <= partition < topic.partitions:
            raise UnknownTopicOrPartition(f"{topic.name} has {topic.partitions} partitions, none numbered {partition}")
        if topic.internal or view.log_of(topic, partition) != self._index:
            raise NotLeader(f"{topic.name}-{partition} belongs to another actor")
        return topic


def _produced(index: int, result: AppendResult) -> dict[str, Any]:
    has_time = result.log_append_time_ms >= 0
    return {
        "index": index,
        "error_code": ErrorCode.none,
        "base_offset": result.base_offset,
        "log_append_time": result.log_append_time_ms if has_time else None,
        "log_start_offset": result.log_start_offset,
        "record_errors": [],
    }


def _refused(index: int, error: LogError) -> dict[str, Any]:
    return {
        "index": index,
        "error_code": error.code,
        "base_offset": _NOWHERE,
        "log_append_time": None,
        "log_start_offset": _NOWHERE,
        "record_errors": [],
        "error_message": str(error),
    }

"""The partitions of a log actor: produces, fetches, ListOffsets v10, DeleteRecords v2, as gateways send them.

Produces and fetches are messages of the internal socket. Gateways translate every client's version of the others to
these: requests are the codec's entities, responses the dicts that ``muster.actors.wire.kafka.codec.encode_response``
takes, with errors in them; none is raised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from muster.actors.log import list_offsets, progress
from muster.actors.log.config import LogConfig
from muster.actors.log.cumulative_size import CumulativeSizes, TopicPartition, cumulative_sizes
from muster.actors.log.errors import LogError
from muster.actors.log.format.client_batch import ClientBatch
from muster.actors.log.leader_epochs import offset_for_leader_epoch
from muster.actors.log.open_logs import LogStorage, OnOpen, OpenLogs, TopicIdPartition
from muster.actors.log.partition import PartitionLog
from muster.actors.log.produces import Placed, Submitted
from muster.actors.log.routing import MAY_COME, Routing
from muster.actors.log.transactions import describing
from muster.actors.log.transactions.verification import Transaction, Verification
from muster.actors.log.upkeep.schedule import Upkeep
from muster.actors.wire.internal.leader_epochs import LeaderEpoch
from muster.actors.wire.internal.markers import Marker
from muster.actors.wire.internal.verification import TransactionVerifier
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import Buffer
from muster.placement.view import ClusterView

T = TypeVar("T")
_NOWHERE = -1


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Partitions:
    """The partitions of one log actor, each opened on first use. For one event loop."""

    def __init__(
        self,
        *,
        storage: LogStorage,
        config: LogConfig,
        topics: Callable[[], ClusterView],
        index: int,
        next_epoch: Callable[[str, int], Awaitable[int]],
        now_ms: Callable[[], int] = _now_ms,
        on_open: OnOpen = lambda *_: None,
        verifier: TransactionVerifier | None = None,
    ) -> None:
        """``index`` is this log actor's; ``next_epoch(topic, partition)`` never returns the same epoch twice.

        ``on_open`` is called for each log that is opened. ``verifier``: see
        ``muster.actors.log.transactions.verification``.
        """
        self._index = index
        self._topics = topics
        self._routing = Routing(topics, index)
        self._ready: dict[TopicIdPartition, PartitionLog] = {}
        """Open logs that this actor owns according to the following view."""
        self._ready_in: ClusterView | None = None
        self._now_ms = now_ms
        self._open_logs = OpenLogs(storage, config, next_epoch, now_ms, self._opened)
        self._on_open = on_open
        self.on_leader_epoch: Callable[[LeaderEpoch], None] = lambda _: None
        """Called with the leader epoch of each log that is opened, before the log is used."""
        self._seen = topics()
        self._upkeep = Upkeep(
            self._stored_logs,
            retention_interval_ms=config.log_retention_check_interval_ms,
            cleaner_interval_ms=config.log_cleaner_backoff_ms,
        )
        self._verification = Verification(verifier, lambda: self._open_logs.config)
        self._late: dict[TopicIdPartition, asyncio.Future[Any]] = {}
        """The last batch or marker of each partition that is waiting for a view, or to be checked in a thread."""
        self._long_check = asyncio.Lock()

    def _opened(self, topic: str, partition: int, opened: PartitionLog) -> None:
        self.on_leader_epoch(LeaderEpoch(opened.topic_id, partition, opened.epoch))
        self._on_open(topic, partition, opened)

    def leader_epochs(self) -> list[LeaderEpoch]:
        """Return the leader epochs of the open logs."""
        return self._open_logs.leader_epochs()

    def configure(self, config: LogConfig) -> None:
        """Apply another configuration. Overrides of a topic take precedence."""
        if config == self._open_logs.config:
            return
        self._upkeep.configure(
            retention_interval_ms=config.log_retention_check_interval_ms,
            cleaner_interval_ms=config.log_cleaner_backoff_ms,
        )
        self._open_logs.config = config
        self._open_logs.reconfigure(self._seen.topics.values())

    def start_upkeep(self) -> None:
        """Begin periodic retention and compaction, as configured."""
        self._upkeep.start()

    async def open_all(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Open these partitions, of which some may not exist any more. Failures are logged."""
        view = self._routing.view()
        for topic_id, partition in partitions:
            if (topic := view.topic_by_id(topic_id)) is not None:
                await self._open_logs.open_stored(topic, partition)

    def place(self, topic_id: UUID, partition: int, records: Buffer, transaction: Transaction | None = None) -> Placed:
        """:meth:`submit`, without a future if the batch need not wait: return its place, or why it is refused."""
        batch = ClientBatch(records)
        if transaction is None and (topic_id, partition) not in self._late:
            try:
                if batch.is_short() and (log := self.open_log(topic_id, partition)) is not None:
                    return log.enqueue_batch(batch)
            except Exception as error:  # other batches of the request do not depend on it
                return error
        return self._submit_client_batch(topic_id, partition, batch, transaction)

    def submit(
        self, topic_id: UUID, partition: int, records: Buffer, transaction: Transaction | None = None
    ) -> Submitted:
        """Append a batch. In each partition, batches get their places in the order of the calls.

        Except that transactional batches wait until the transaction is confirmed. ``transaction``: what the Produce
        request says of it; None without a transactional id.
        """
        return self._submit_client_batch(topic_id, partition, ClientBatch(records), transaction)

    def _submit_client_batch(
        self, topic_id: UUID, partition: int, batch: ClientBatch, transaction: Transaction | None
    ) -> Submitted:
        if transaction is None:
            return self._submit_batch((topic_id, partition), batch, lambda log: log.enqueue_batch(batch))
        outcome: Submitted = asyncio.get_running_loop().create_future()

        def begin(log: PartitionLog) -> None:
            topic = self._routing.topic(topic_id, partition).name
            self._verification.submit(log, topic, partition, batch, transaction, outcome)

        self._submit_batch((topic_id, partition), batch, begin).add_done_callback(partial(_fail_too, outcome))
        return outcome

    def _submit_batch(
        self, key: TopicIdPartition, batch: ClientBatch, action: Callable[[PartitionLog], T]
    ) -> asyncio.Future[T]:
        """Like :meth:`_submit`. A batch that takes long is checked in a thread before, one at a time."""
        if batch.is_short():
            submitted = self._submit(key, action)
            batch.forget()  # it may have to wait
            return submitted

        async def check(log: PartitionLog) -> None:
            async with self._long_check:
                await asyncio.to_thread(log.check, batch)

        return self._submit_late(key, action, check)

    def mark(self, topic_id: UUID, partition: int, marker: Marker) -> Submitted:
        """End a transaction, after the batches submitted before, except those that wait to be confirmed."""
        return self._submit((topic_id, partition), lambda log: log.enqueue_marker(marker))

    def _submit(self, key: TopicIdPartition, action: Callable[[PartitionLog], T]) -> asyncio.Future[T]:
        """Call ``action`` with the log of a partition, in the order of the calls."""
        try:
            if key not in self._late:
                return self._open_logs.use(self._routing.topic(*key), key[1], action)
        except MAY_COME:
            pass
        except LogError as error:
            refused: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            refused.exception()
            return refused
        return self._submit_late(key, action)

    def _submit_late(
        self,
        key: TopicIdPartition,
        action: Callable[[PartitionLog], T],
        first: Callable[[PartitionLog], Awaitable[None]] | None = None,
    ) -> asyncio.Future[T]:
        """Submit once the view has the partition, after requests for the same partition that already wait.

        ``first`` is awaited before ``action`` is called.
        """

        async def submit(before: asyncio.Future[Any] | None) -> T:
            if before is not None:
                await asyncio.wait([before])
            topic = await self._routing.soon(lambda: self._routing.topic(*key))
            if first is not None:
                await first(await self._open_logs.use(topic, key[1], lambda log: log))
            return await self._open_logs.use(topic, key[1], action)

        task = asyncio.get_running_loop().create_task(submit(self._late.get(key)))
        self._late[key] = task
        task.add_done_callback(lambda _: self._late.pop(key) if self._late.get(key) is task else None)
        return task

    def open_log(self, topic_id: UUID, partition: int) -> PartitionLog | None:
        """Return the log of a partition of this actor if it is open; None if it has to be opened first.

        Raises LogError.
        """
        view = self._topics()
        if view is not self._ready_in:
            self._ready_in = view
            self._ready.clear()
        log = self._ready.get((topic_id, partition))
        if log is None or log.is_over:
            try:
                topic = self._routing.topic(topic_id, partition)
            except MAY_COME:
                return None
            log = self._open_logs.open_log(topic, partition)
            if log is not None:
                self._ready[topic_id, partition] = log
        return log

    async def list_offsets(self, entity: Any) -> dict[str, Any]:
        """ListOffsets v10: see ``muster.actors.log.list_offsets``."""
        return await list_offsets.list_offsets(entity, self._log_by_name)

    async def offset_for_leader_epoch(self, entity: Any) -> dict[str, Any]:
        """OffsetForLeaderEpoch v4."""
        return await offset_for_leader_epoch(entity, self._log_by_name)

    async def delete_records(self, entity: Any) -> dict[str, Any]:
        """DeleteRecords v2. The deletion is durable when this responds."""
        topics = []
        for topic in entity.topics:
            deletions = (self._delete_records(topic.name, partition) for partition in topic.partitions)
            topics.append({"name": topic.name, "partitions": await asyncio.gather(*deletions)})
        return {"throttle_time": 0, "topics": topics}

    async def _delete_records(self, topic: str, request: Any) -> dict[str, Any]:
        response = {"partition_index": request.partition_index, "low_watermark": _NOWHERE, "error_code": ErrorCode.none}
        try:
            log = await self._log_by_name(topic, int(request.partition_index))
            return response | {"low_watermark": await log.delete_records(int(request.offset))}
        except LogError as error:
            return response | {"error_code": error.code}

    async def describe_producers(self, entity: Any) -> dict[str, Any]:
        """DescribeProducers v0: see ``muster.actors.log.transactions.describing``."""
        return await describing.describe_producers(entity, self._log_by_name)

    async def append_times(self, query: dict[str, Any]) -> dict[str, Any]:
        """How far readers are behind: see ``muster.actors.log.progress.append_times``."""
        return await progress.append_times(query, self._log_by_name, self._now_ms)

    async def cumulative_sizes(
        self, queries: Iterable[tuple[TopicPartition, tuple[int, ...]]]
    ) -> dict[TopicPartition, CumulativeSizes]:
        """For the audit: see ``muster.actors.log.cumulative_size.cumulative_sizes``."""
        return await cumulative_sizes(queries, self._log_by_name)

    @property
    def corrupt_segments(self) -> int:
        """The number of segments of open partitions that are set aside or missing."""
        return sum(log.corrupt_segments for log in self._open_logs.open_logs())

    async def view_changed(self, view: ClusterView) -> None:
        """Remove partitions of topics deleted since the last view, and apply the configuration of the others.

        A topic that was deleted while this actor was not running is not noticed.
        """
        before = self._seen
        if view.order <= before.order:
            return
        self._seen = view
        self._routing.changed()
        self._open_logs.reconfigure(view.topics.values())
        gone = [topic for topic in before.topics.values() if view.topic_by_id(topic.topic_id) is None]
        for topic in gone:
            for partition in range(topic.partitions):
                if not topic.internal and view.log_of(topic, partition) == self._index:
                    await self._open_logs.delete(topic, partition)

    async def close(self) -> None:
        """Make accepted batches durable and close all partitions. Later requests get NOT_LEADER_OR_FOLLOWER."""
        await self._upkeep.stop()
        self._verification.close()
        self._ready.clear()
        await self._open_logs.close()

    async def _stored_logs(self) -> list[PartitionLog]:
        """Return this actor's logs on the disk. Opens those that no client has used yet, because they age, too."""
        view = self._routing.view()
        owned = [
            (topic, partition)
            for topic in view.topics.values()
            for partition in range(topic.partitions)
            if not topic.internal and view.log_of(topic, partition) == self._index
        ]
        for topic, partition in owned:
            if self._routing.view().topic_by_id(topic.topic_id) is not None:  # the view may change during an opening
                await self._open_logs.open_stored(topic, partition)
        return self._open_logs.open_logs()

    async def log_by_id(self, topic_id: UUID, partition: int) -> PartitionLog:
        """Return the log of a partition of this actor, opened if necessary. Raises LogError."""
        topic = await self._routing.soon(lambda: self._routing.topic(topic_id, partition))
        return await self._open_logs.use(topic, partition, lambda log: log)

    async def _log_by_name(self, name: str, partition: int) -> PartitionLog:
        topic = await self._routing.soon(lambda: self._routing.named(name))
        return await self.log_by_id(topic.topic_id, partition)


def _fail_too(outcome: Submitted, begun: asyncio.Future[None]) -> None:
    """Fail a batch that never came before the verification has failed."""
    if begun.cancelled():
        outcome.cancel()
    elif (error := begun.exception()) is not None and not outcome.done():
        outcome.set_exception(error)

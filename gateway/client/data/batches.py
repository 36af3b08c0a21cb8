"""Batches of a group: read, worked on, and committed in one transaction with their output.

A batch that was begun and not committed is the same when it is begun again, by whatever driver: its number and its
ranges are stored in the group before it is read (:mod:`muster.gateway.client.data.plan`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

from muster.gateway.client.data.fetching import client_id
from muster.gateway.client.data.plan import done, planned, read_plan
from muster.gateway.client.data.ranges import Range, between, cut
from muster.gateway.client.data.ray_client import refuse_ray_client
from muster.gateway.client.errors import GroupHasMembers
from muster.gateway.client.kafka.groups import members_of
from muster.gateway.client.kafka.leaders import TopicPartition
from muster.gateway.client.kafka.offsets import Committed, committed, log_offsets
from muster.gateway.client.kafka.requests import EARLIEST, LATEST
from muster.gateway.client.kafka.transaction import TransactionalProducer

if TYPE_CHECKING:
    from ray.data import Dataset

    from muster.gateway.client.cluster import Cluster

_POLL_S = 0.2
_REFRESH_S = 3600.0
"""Offsets are committed again after this time, also if there is nothing to read."""
_MAX_NAMED = 5


class Batch:
    """Records of one batch of a group. In a ``with`` block, it is committed at the end of the block."""

    def __init__(self, driver: Driver, number: int, ranges: tuple[Range, ...], rows_per_task: int) -> None:
        self._driver, self._rows_per_task = driver, rows_per_task
        self._output: dict[TopicPartition, list[bytearray]] = {}
        self._output_bytes = 0
        self._dataset: Dataset | None = None
        self.id = number
        """Its number in the group: the next one's is higher, and that of a batch that is begun again is the same."""
        self.ranges = ranges
        """The ranges that it reads, by topic and partition; empty if there was nothing to read."""
        self.is_committed = False
        self._has_failed = False

    @property
    def dataset(self) -> Dataset:
        """Its records, with the columns of ``muster.data.SCHEMA``. It can be executed again."""
        if self._dataset is None:
            from muster.gateway.client.data.datasource import dataset_of

            self._dataset = dataset_of(self._driver.cluster, self._driver.group, self.ranges, None, self._rows_per_task)
        return self._dataset

    def write(
        self,
        dataset: Dataset,
        topic: str,
        *,
        key: str | None = "key",
        value: str = "value",
        headers: str | None = None,
        partition: str | None = None,
    ) -> int:
        """Prepare the rows now, in tasks; they are sent in the transaction that commits the batch.

        The columns ``key`` and ``value`` have bytes or strings; ``headers`` maps strings to bytes; ``partition`` has
        numbers. Without ``partition``, a key's is that of Kafka's Java client (murmur2), and records without a key go
        together to any. Rows keep their order. Returns the number of records. Raises OutputTooLarge if the output of
        the batch is larger than ``max_bytes``, UnknownTopic, TypeError or ValueError for columns, NoResponse.
        """
        from muster.gateway.client.data.datasink import Columns
        from muster.gateway.client.data.writing import add_to, prepare, target_of

        self._check_open()
        driver = self._driver
        target = target_of(driver.cluster, topic, Columns(key, value, headers, partition), driver.client_id)
        prepared = prepare(dataset, target, driver.max_bytes - self._output_bytes)
        add_to(self._output, topic, prepared)
        self._output_bytes += sum(each.size_bytes for each in prepared)
        return sum(each.records for each in prepared)

    def commit(self) -> None:
        """Send the output and commit the ends of the ranges, in one transaction.

        Raises Fenced, GroupHasMembers, RecordTooLarge, Refused or NoResponse: then it is not committed, or, after
        NoResponse, perhaps. It cannot be committed again: the next batch of the group tells.
        """
        self._check_open()
        if self.ranges or self._output:
            self._driver.check_alone()
            self._has_failed = True  # unless it is known to have succeeded
            self._driver.producer.transact(self._output, self._driver.group, done(self.id, self.ranges))
            self._has_failed = False
        self.is_committed = True
        self._output.clear()

    @property
    def is_open(self) -> bool:
        """Whether it has not been committed, nor tried to."""
        return not (self.is_committed or self._has_failed)

    def _check_open(self) -> None:
        if self.is_committed:
            raise ValueError(f"batch {self.id} is committed")
        if self._has_failed:
            raise ValueError(f"batch {self.id} may have been committed when its commit failed; ask for the next batch")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self.is_open:
                self.commit()
        finally:
            self._driver.close()

    def __repr__(self) -> str:
        return f"Batch(id={self.id}, ranges={list(self.ranges)})"


class Driver:
    """One that makes batches of a group. Older ones of the group are fenced from its beginning on."""

    def __init__(
        self, cluster: Cluster, topics: Sequence[str], group: str, max_records: int, max_bytes: int, rows_per_task: int
    ) -> None:
        """Raise GroupHasMembers, UnknownTopic, Refused, NoResponse or RayClientUnsupported."""
        refuse_ray_client()
        self.cluster, self.group, self.max_bytes = cluster, group, max_bytes
        self.client_id = client_id(group)
        self._topics, self._max_records, self._rows_per_task = topics, max_records, rows_per_task
        self.producer = TransactionalProducer(cluster, f"muster-data-{group}", self.client_id)
        self._leaders = cluster.leaders(self.client_id)
        self._refreshed_s = -_REFRESH_S
        try:
            self.check_alone()
            self.producer.begin()
        except BaseException:
            self.close()
            raise

    def next(self, wait_s: float) -> Batch:
        """Return the next batch, or that which was begun; without ranges if nothing came within ``wait_s``."""
        until_s = time.monotonic() + wait_s
        while True:
            with self.cluster.coordinator(self.group, self.client_id) as coordinator:
                offsets = committed(coordinator, self.group)
            number, ranges = read_plan(offsets, int(time.time()))
            if not ranges:
                ranges = self._plan(number, offsets)
            if ranges or time.monotonic() >= until_s:
                return Batch(self, number, ranges, self._rows_per_task)
            time.sleep(min(_POLL_S, wait_s))

    def is_full(self, batch: Batch) -> bool:
        """Whether the batch has as many records as it may: there may be more."""
        return sum(each.offsets for each in batch.ranges) >= self._max_records

    def _plan(self, number: int, offsets: dict[TopicPartition, Committed]) -> tuple[Range, ...]:
        """Return the ranges of the next batch, which are stored in the group; none if there is nothing to read."""
        unread, known = self._unread(offsets)
        ranges = cut(unread, self._max_records)
        if ranges:
            self.producer.transact({}, self.group, planned(number, ranges, known))
        elif known and time.monotonic() - self._refreshed_s >= _REFRESH_S:
            self.producer.transact({}, self.group, known)
        else:
            return ranges
        self._refreshed_s = time.monotonic()
        return ranges

    def _unread(
        self, offsets: dict[TopicPartition, Committed]
    ) -> tuple[tuple[Range, ...], dict[TopicPartition, Committed]]:
        """Return what is unread in the topics, and what is committed of them."""
        self._leaders.forget(self._topics)  # partitions may have been added
        partitions = [(topic, index) for topic in self._topics for index in self._leaders.partitions(topic)]
        starts = log_offsets(self._leaders, partitions, EARLIEST)
        ends = log_offsets(self._leaders, partitions, LATEST)
        begun = {each: max(offsets[each].offset, low) for each, low in starts.items() if each in offsets}
        return between(starts | begun, ends), {each: offsets[each] for each in begun}

    def check_alone(self) -> None:
        """Raise GroupHasMembers: a commit in a transaction is not refused beside members (KIP-447)."""
        with self.cluster.coordinator(self.group, self.client_id) as coordinator:
            members = sorted(each.client_id for each in members_of(coordinator, self.group))
        if members:
            named = ", ".join(members[:_MAX_NAMED]) + (", ..." if len(members) > _MAX_NAMED else "")
            raise GroupHasMembers(f"group {self.group} has members ({named}); stop them, or use another group")

    def close(self) -> None:
        self.producer.close()
        self._leaders.close()


def each_batch(driver: Driver, every_s: float, until: Callable[[Batch], bool] | None) -> Iterator[Batch]:
    """Yield batches, ``every_s`` seconds apart or at once after a full one; each is committed when the next is asked
    for. It ends at the first for which ``until`` is true, without it."""
    try:
        while True:
            began_s = time.monotonic()
            batch = driver.next(0)
            if until is not None and until(batch):
                return
            yield batch
            if batch.is_open:
                batch.commit()
            if not driver.is_full(batch):
                time.sleep(max(0.0, began_s + every_s - time.monotonic()))
    finally:
        driver.close()

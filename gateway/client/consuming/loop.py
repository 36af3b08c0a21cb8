"""The loop of a member: poll, handle, commit. It imports confluent-kafka and pyarrow.

One thread polls, another one handles. So the member stays in its group however long a batch takes, and gives up a
partition only after the batch that has its records.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from muster.gateway.client.consuming import assignment
from muster.gateway.client.consuming.batches import Batch, table_of
from muster.gateway.client.consuming.dead_letters import DeadLetterTopic
from muster.gateway.client.consuming.handler_thread import HandlerThread, Job
from muster.gateway.client.consuming.handling import Abandoned, Counts, Handler, Handling, text_of
from muster.gateway.client.consuming.settings import Consumption
from muster.gateway.client.errors import HandlerFailed, MusterError

log = logging.getLogger(__name__)

_POLL_S = 0.5
_BEGINS_S = 5.0
_LONG_S = 5.0
"""A batch that takes longer is long: from then on the member polls, with its partitions paused."""


class Loop:
    """One member of a group, from ``run`` to its end. Other threads may read its state and call ``stop``."""

    def __init__(self, settings: Consumption, client_id: str, new_handler: Callable[[], Handler]) -> None:
        """``new_handler``: called once, before the member joins its group."""
        self._settings, self._client_id, self._new_handler = settings, client_id, new_handler
        self._stopping = threading.Event()
        self._assignment = assignment.Assignment()
        self._consumer: Any = None
        self._job: Job | None = None
        """The batch that is handled, until its end is noted."""
        self._held: list[Any] = []
        """Messages that came while a batch was handled."""
        self._new: list[assignment.TopicPartition] = []
        """Partitions that were assigned since the last poll."""
        self._paused: set[assignment.TopicPartition] = set()
        self.counts = Counts()
        self.partitions: tuple[assignment.TopicPartition, ...] = ()
        self.polled_s: float | None = None
        """When it polled last, by ``time.monotonic``; None before the handler is made."""
        self.handles_from_s: float | None = None
        """Since when it handles the present batch; None if there is none."""

    def stop(self) -> None:
        """Let ``run`` finish the batch that is handled, commit it, leave the group and return."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def run(self) -> None:
        """Consume until ``stop``. Raises HandlerFailed, MusterError or KafkaException, after it has left the group."""
        letters = self._dead_letters()
        handling = Handling(self._settings.attempts, letters, self.counts, self._stopping)
        thread = HandlerThread(self._new_handler, lambda handler, batch: handling.handle(handler, _read(batch)))
        try:
            self._await_handler(thread.made)
            if not self._stopping.is_set():
                self._consume(thread)
        finally:
            thread.close()

    def _dead_letters(self) -> DeadLetterTopic | None:
        topic = self._settings.dead_letters
        if topic is None:
            return None
        properties = self._settings.cluster.client(**{"client.id": self._client_id})
        return DeadLetterTopic(topic, self._settings.group, properties)

    def _await_handler(self, made: Job) -> None:
        while not made.done.wait(_POLL_S):
            if self._stopping.is_set():
                return
        if made.error is not None:
            log.error("the handler cannot be made", exc_info=made.error)
            raise HandlerFailed(f"the handler cannot be made: {text_of(made.error)}") from made.error

    def _consume(self, thread: HandlerThread) -> None:
        self._consumer = Consumer(self._settings.consumer_properties(self._client_id))
        try:
            self._consumer.subscribe(
                list(self._settings.topics),
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            while not self._stopping.is_set():
                self._turn(thread)
        finally:
            self._stopping.set()  # after an error, so that no attempt follows
            self._consumer.close()

    def _turn(self, thread: HandlerThread) -> None:
        batch = self._next_batch()
        self._commit_begins()
        if batch.messages:
            self._job = thread.submit(batch)
            self.handles_from_s = time.monotonic()
            self._await(self._job)
            self._finish_job()
        else:
            self._assignment.note_handled(batch.ends, batch.assignments)
        self._commit()

    def _next_batch(self) -> Batch:
        """Return what there is, up to ``max_records``, as soon as there is something; empty after half a second."""
        messages, self._held = self._held, []
        if not messages and (first := self._polled(_POLL_S)) is not None:
            messages.append(first)
        if messages and len(messages) < self._settings.max_records:
            messages += self._consumer.consume(self._settings.max_records - len(messages), 0)
        self._held = messages[self._settings.max_records :]
        batch = Batch()
        for message in messages[: self._settings.max_records]:
            self._add(batch, message)
        return batch

    def _polled(self, timeout_s: float) -> Any:
        message = self._consumer.poll(timeout_s)
        self.polled_s = time.monotonic()
        return message

    def _add(self, batch: Batch, message: Any) -> None:
        """Add a record, or the end of a partition, which may be beyond the last record that is delivered.

        Transaction markers and aborted records are not delivered.
        """
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            self._note_error(error)
            return
        partition = (message.topic(), message.partition())
        number = self._assignment.number_of(partition)
        if number is None:
            return
        batch.assignments[partition] = number
        if error is None:
            batch.messages.append(message)
            batch.ends[partition] = message.offset() + 1
        else:
            batch.ends[partition] = message.offset()

    def _note_error(self, error: Any) -> None:
        self.counts.last_error = str(error)
        log.warning("%s: %s", self._client_id, error)
        if error.fatal():
            raise KafkaException(error)

    def _await(self, job: Job) -> None:
        """Wait until the batch is handled. A long one is waited for with polls, which also serve rebalances."""
        if job.done.wait(min(_LONG_S, self._settings.max_poll_interval_s / 4)):
            return
        try:
            while not job.done.is_set():
                self._pause()
                message = self._polled(_POLL_S)
                if message is not None:
                    self._held.append(message)
        finally:
            self._resume()

    def _pause(self) -> None:
        new = set(self._assignment.partitions) - self._paused
        if new:
            self._consumer.pause([TopicPartition(*each) for each in new])
            self._paused |= new

    def _resume(self) -> None:
        still = self._paused.intersection(self._assignment.partitions)
        self._paused.clear()
        if still:
            self._consumer.resume([TopicPartition(*each) for each in still])

    def _finish_job(self) -> None:
        """Note the end of the batch, once. Raises its error."""
        job, self._job = self._job, None
        self.handles_from_s = None
        if job is None:
            return
        if isinstance(job.error, Abandoned):
            return
        if job.error is not None:
            raise job.error
        self._assignment.note_handled(job.batch.ends, job.batch.assignments)

    def _commit_begins(self) -> None:
        """Commit where partitions begin that are new to the group, so that their lag is known from the beginning."""
        new = [each for each in self._new if self._assignment.number_of(each) is not None]
        self._new.clear()
        if not new or self._settings.starts_at_end:
            return
        try:
            found = self._consumer.committed([TopicPartition(*each) for each in new], _BEGINS_S)
            without = [(each.topic, each.partition) for each in found if each.offset < 0]
            if without:
                begins = self._begins(without)
                wanted = [TopicPartition(*each, begin) for each, begin in begins.items()]
                self._consumer.commit(offsets=wanted, asynchronous=False)
        except (KafkaException, MusterError, OSError) as error:  # its lag is known once its first records are handled
            log.info("%s: the begin of partitions is not committed: %s", self._client_id, error)

    def _begins(self, partitions: list[assignment.TopicPartition]) -> dict[assignment.TopicPartition, int]:
        """Return the first offset of each partition, over connections of their own.

        On those of the consumer, each request for an empty partition would wait until its Fetch has timed out.
        """
        from muster.gateway.client.kafka.offsets import log_offsets
        from muster.gateway.client.kafka.requests import EARLIEST

        with self._settings.cluster.leaders(self._client_id, _BEGINS_S) as leaders:
            return log_offsets(leaders, partitions, EARLIEST)

    def _commit(self) -> None:
        """Commit what is handled. What is refused is repeated, while the member has the partition."""
        offsets = self._assignment.to_commit()
        if not offsets:
            return
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        try:
            results = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            self._note_refusal(error.args[0])
            return
        accepted: dict[assignment.TopicPartition, int] = {}
        for each in results or wanted:
            if each.error is None:
                accepted[each.topic, each.partition] = offsets[each.topic, each.partition]
            else:
                self._note_refusal(each.error)
        self._assignment.note_committed(accepted)

    def _note_refusal(self, error: Any) -> None:
        self.counts.refused_commits += 1
        if error.code() not in _REBALANCE:
            self.counts.last_error = f"offsets are not committed: {error}"
        log.info("%s: offsets are not committed: %s", self._client_id, error)

    def _on_assign(self, _: Any, partitions: Iterable[Any]) -> None:
        new = _keys(partitions)
        self._assignment.add(new)
        self._new += new
        self.partitions = self._assignment.partitions

    def _on_revoke(self, _: Any, partitions: Iterable[Any]) -> None:
        """Finish the batch first if it has records of these partitions, but leave time to join the group again."""
        job, revoked = self._job, _keys(partitions)
        if job is not None and not job.batch.ends.keys().isdisjoint(revoked):
            is_done = job.done.wait(self._settings.max_poll_interval_s / 2)
            if is_done and job.error is None:
                self._assignment.note_handled(job.batch.ends, job.batch.assignments)
        self._commit()
        self._forget(revoked)

    def _on_lost(self, _: Any, partitions: Iterable[Any]) -> None:
        self._forget(_keys(partitions))

    def _forget(self, partitions: Mapping[assignment.TopicPartition, None]) -> None:
        self._assignment.remove(partitions)
        self._paused -= partitions.keys()
        self._held = [each for each in self._held if (each.topic(), each.partition()) not in partitions]
        self.partitions = self._assignment.partitions


_REBALANCE = {
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._NO_OFFSET,
}
"""Errors of a commit that a rebalance explains: who has the partition reads the batch again."""


def _read(batch: Batch) -> pa.Table:
    """Return the records of the batch. Raises HandlerFailed if one has what no column takes."""
    try:
        return table_of(batch.messages)
    except Exception as error:
        first = batch.messages[0]
        place = f"{first.topic()}-{first.partition()}@{first.offset()}"
        raise HandlerFailed(f"{place}, or a record of the same batch, cannot be read: {text_of(error)}") from error


def _keys(partitions: Iterable[Any]) -> dict[assignment.TopicPartition, None]:
    return {(each.topic, each.partition): None for each in partitions}

"""A producer of prepared record batches: all of them, and a group's offsets, in one transaction (KIP-98, KIP-447).

Its transactional id is the fence: the producer that began last is the only one that can commit.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from muster.actors.log.format.arrow.building import stamp
from muster.actors.log.format.batch import read_header
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import Fenced, MusterError, RecordTooLarge
from muster.gateway.client.kafka.brokers import RETRIABLE, TRANSACTION, Coordinator
from muster.gateway.client.kafka.leaders import LATER, TopicPartition
from muster.gateway.client.kafka.offsets import Committed
from muster.gateway.client.kafka.refusals import Refused
from muster.gateway.client.kafka.requests import NO_LEADER_EPOCH

if TYPE_CHECKING:
    from muster.gateway.client.cluster import Cluster
    from muster.gateway.client.kafka.connection import Connection

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = (
    (0, 9),
    (22, 4),
    (24, 3),
    (25, 3),
    (26, 3),
    (28, 3),
)
TIMEOUT_MS = 120_000
"""``transaction.timeout.ms``: of the sending alone, since a transaction begins when its batches are prepared."""
_NONE = -1
_ALL, _ACKNOWLEDGE_MS = -1, 30_000
_MAX_REQUEST_BYTES = 16 << 20
_END_S = 60.0
_FENCED = frozenset((ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch))
_LATER = RETRIABLE | {ErrorCode.concurrent_transactions, ErrorCode.unstable_offset_commit}
_TOO_LARGE = frozenset((ErrorCode.message_too_large, ErrorCode.record_list_too_large))

Output = Mapping[TopicPartition, Sequence[bytearray]]
"""Prepared batches, in their order, by partition."""


class TransactionalProducer:
    """Producer of one transactional id. Use it in a ``with`` block, or close it; one thread at a time.

    Its methods raise Fenced once another one of that id has begun, Refused, or NoResponse.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, client_id: str) -> None:
        self.transactional_id = transactional_id
        self._cluster, self._client_id = cluster, client_id
        self._coordinator = Coordinator(
            cluster.bootstrap, transactional_id, client_id, cluster.security, key_type=TRANSACTION
        )
        self._leaders = cluster.leaders(client_id)
        self._producer_id, self._epoch = _NONE, _NONE
        self._sequences: dict[TopicPartition, int] = {}
        self._has_begun = False

    def begin(self) -> None:
        """Fence older producers of the transactional id, whose open transaction is aborted. It returns once that, or
        one that was being committed, has ended."""
        body = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": TIMEOUT_MS,
            "producer_id": self._producer_id,
            "producer_epoch": self._epoch,
        }
        response = self._request(self._coordinator, INIT_PRODUCER_ID, body)
        self._check(response.error_code, f"transactional id {self.transactional_id}")
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        self._sequences.clear()
        self._has_begun = True

    def transact(
        self, output: Output, group: str = "", offsets: Mapping[TopicPartition, Committed] | None = None
    ) -> None:
        """Produce all batches and commit the group's offsets, or neither. The batches are given their sequences.

        NoResponse can mean that it is committed: :meth:`begin`, of this or another one, tells. Raises RecordTooLarge.
        """
        if not self._has_begun:
            self.begin()  # after a transaction that was aborted; with our epoch, so that a newer one fences us
        try:
            if any(output.values()):
                self._add_partitions(output)
                self._produce(output)
            if offsets:
                self._commit_offsets(group, offsets)
        except BaseException as error:
            self._has_begun = False
            if not isinstance(error, Fenced):
                with contextlib.suppress(MusterError):  # else the next one aborts it, or its timeout
                    self._end(is_committed=False)
            raise
        if offsets or any(output.values()):
            self._has_begun = False  # unless it is known to have ended
            try:
                self._end(is_committed=True)
            except Fenced as error:
                raise Fenced(
                    f"another producer with transactional id {self.transactional_id} has begun since; whether this "
                    "transaction was committed before, the group's offsets tell"
                ) from error
            self._has_begun = True

    def _add_partitions(self, output: Output) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(output):
            by_topic.setdefault(topic, []).append(index)
        body = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": self._producer_id,
            "v3_and_below_producer_epoch": self._epoch,
            "v3_and_below_topics": [{"name": name, "partitions": indexes} for name, indexes in by_topic.items()],
        }
        response = self._request(self._coordinator, ADD_PARTITIONS, body)
        results = [
            (each.partition_error_code, topic.name)
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]
        for error, name in sorted(results, key=lambda result: result[0] is ErrorCode.operation_not_attempted):
            self._check(error, f"topic {name}")

    def _produce(self, output: Output) -> None:
        """Send the batches of each partition in their order, a request to each leader at a time."""
        waiting = {each: deque(batches) for each, batches in output.items() if batches}
        while waiting:
            heads: dict[TopicPartition, bytearray] = {}
            size_bytes = 0
            for partition, batches in waiting.items():
                if heads and size_bytes + len(batches[0]) > _MAX_REQUEST_BYTES:
                    break
                heads[partition] = self._stamped(partition, batches.popleft())
                size_bytes += len(heads[partition])
            self._leaders.of_each(heads, partial(self._sent, heads))
            # Those that waited first, so that none is left to the end.
            waiting = {each: waiting[each] for each in (*(waiting.keys() - heads), *heads) if waiting[each]}

    def _stamped(self, partition: TopicPartition, batch: bytearray) -> bytearray:
        first = self._sequences.get(partition, 0)
        stamp(batch, self._producer_id, self._epoch, first, transactional=True)
        self._sequences[partition] = (first + read_header(batch).record_count) & 0x7FFFFFFF
        return batch

    def _sent(
        self, batches: Mapping[TopicPartition, bytearray], connection: Connection, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the offsets of the batches that are acknowledged. Raises OSError; then they are sent again."""
        data: dict[str, list[dict[str, Any]]] = {}
        for topic, index in partitions:
            data.setdefault(topic, []).append({"index": index, "records": bytes(batches[topic, index])})
        topics = [{"name": name, "partition_data": each} for name, each in data.items()]
        body = {"acks": _ALL, "timeout": _ACKNOWLEDGE_MS, "topic_data": topics}
        response = connection.request(*PRODUCE, {"transactional_id": self.transactional_id, **body})
        found = {}
        for topic in response.responses:
            for each in topic.partition_responses:
                if each.error_code in _TOO_LARGE:
                    raise RecordTooLarge(
                        f"a record for {topic.name}-{each.index} is larger than the topic takes; "
                        "raise its max.message.bytes"
                    )
                if each.error_code in LATER:
                    continue
                if each.error_code is not ErrorCode.duplicate_sequence_number:  # it was sent before, and is there
                    self._check(each.error_code, f"{topic.name}-{each.index} cannot be written")
                found[topic.name, each.index] = each.base_offset
        return found

    def _commit_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        who = {"producer_id": self._producer_id, "producer_epoch": self._epoch, "group_id": group}
        body = {"transactional_id": self.transactional_id, **who}
        response = self._request(self._coordinator, ADD_OFFSETS, body)
        self._check(response.error_code, f"offsets of group {group}")
        by_topic: dict[str, list[dict[str, Any]]] = {}
        for (topic, index), (offset, metadata) in offsets.items():
            committed = {"committed_offset": offset, "committed_leader_epoch": NO_LEADER_EPOCH}
            each = {"partition_index": index, **committed, "committed_metadata": metadata}
            by_topic.setdefault(topic, []).append(each)
        topics = [{"name": name, "partitions": each} for name, each in by_topic.items()]
        no_member = {"generation_id": _NONE, "member_id": "", "group_instance_id": None}
        with self._cluster.coordinator(group, self._client_id) as coordinator:
            response = self._request(coordinator, COMMIT_OFFSETS, {**body, **no_member, "topics": topics})
        for topic in response.topics:
            for each in topic.partitions:
                self._check(each.error_code, f"the offset of {topic.name}-{each.partition_index}")

    def _end(self, *, is_committed: bool) -> None:
        who = {"producer_id": self._producer_id, "producer_epoch": self._epoch}
        body = {"transactional_id": self.transactional_id, **who, "committed": is_committed}
        response = self._request(self._coordinator, END, body)
        self._check(response.error_code, f"the transaction of {self.transactional_id}")

    def _request(self, broker: Coordinator, api: tuple[int, int], body: dict[str, Any]) -> Any:
        return broker.request(*api, body, retriable=_LATER, timeout_s=_END_S)

    def _check(self, error: ErrorCode, what: str) -> None:
        if error in _FENCED:
            raise Fenced(
                f"another producer with transactional id {self.transactional_id} has begun since, or the transaction "
                f"took longer than {TIMEOUT_MS // 1000} s; nothing of it is committed: end this driver, or begin again"
            )
        if error is not ErrorCode.none:
            raise Refused(what, error, None)

    def close(self) -> None:
        self._coordinator.close()
        self._leaders.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

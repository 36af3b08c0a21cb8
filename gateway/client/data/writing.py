"""Prepares a Dataset for a topic, and puts what its tasks prepared together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ray.exceptions import RayTaskError

from muster.gateway.client.data.datasink import Columns, Prepared, PreparingSink, Target, check_size
from muster.gateway.client.errors import MusterError
from muster.gateway.client.kafka.leaders import TopicPartition
from muster.gateway.client.kafka.refusals import Refused
from muster.gateway.client.kafka.topics import configs_of

if TYPE_CHECKING:
    from ray.data import Dataset

    from muster.gateway.client.cluster import Cluster

_MAX_MESSAGE = "max.message.bytes"
_DEFAULT_BATCH_BYTES = 1_048_588
"""Kafka's default of ``max.message.bytes``, where it may not be read."""


def target_of(cluster: Cluster, topic: str, columns: Columns, client_id: str) -> Target:
    """Return the topic as it is now. Raises UnknownTopic, Refused or NoResponse."""
    with cluster.leaders(client_id) as leaders:
        count = len(leaders.partitions(topic))
    return Target(topic, count, columns, _max_batch_bytes(cluster, topic, client_id), time.time_ns() // 1_000_000)


def prepare(dataset: Dataset, target: Target, max_bytes: int) -> list[Prepared]:
    """Return the records of the Dataset as batches, in the order of its rows.

    Raises OutputTooLarge, or TypeError or ValueError for its columns.
    """
    sink = PreparingSink(target, max_bytes)
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True  # as Kafka keeps the order of a partition
    try:
        dataset.write_datasink(sink)
    except RayTaskError as error:
        if isinstance(error.cause, MusterError | TypeError | ValueError):
            raise error.cause from error
        raise
    finally:
        options.preserve_order = before
    check_size(sum(each.size_bytes for each in sink.prepared), max_bytes)
    return sink.prepared


def add_to(output: dict[TopicPartition, list[bytearray]], topic: str, prepared: Iterable[Prepared]) -> None:
    """Add the prepared batches to those of a transaction."""
    for each in prepared:
        for partition, batch in each.batches:
            output.setdefault((topic, partition), []).append(batch)


def _max_batch_bytes(cluster: Cluster, topic: str, client_id: str) -> int:
    with cluster.brokers(client_id) as brokers, contextlib.suppress(Refused):  # such as TOPIC_AUTHORIZATION_FAILED
        return int(configs_of(brokers, topic, [_MAX_MESSAGE]).get(_MAX_MESSAGE) or _DEFAULT_BATCH_BYTES)
    return _DEFAULT_BATCH_BYTES

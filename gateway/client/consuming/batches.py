"""Batches of records, as tables of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from muster.actors.log.format.arrow.schema import SCHEMA
from muster.gateway.client.consuming.assignment import TopicPartition


@dataclass(slots=True)
class Batch:
    """Records of one or more partitions, in the order of each."""

    messages: list[Any] = field(default_factory=list)
    """confluent-kafka's, without errors."""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """Offsets to commit, once the records are handled."""
    assignments: dict[TopicPartition, int] = field(default_factory=dict)
    """The assignment by which each partition was read."""


def table_of(messages: Sequence[Any]) -> pa.Table:
    """Return the messages of confluent-kafka as a table with ``SCHEMA``."""
    timestamps = [message.timestamp() for message in messages]
    columns = (
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [timestamp_ms for _, timestamp_ms in timestamps],
        [kind for kind, _ in timestamps],
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.headers() or [] for message in messages],
    )
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)

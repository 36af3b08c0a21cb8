"""How many bytes a log holds before an offset, from its index, for the audit (``muster.actors.audit``)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from muster.actors.log.errors import LogError
from muster.actors.log.fetch import LogByName
from muster.actors.log.partition import PartitionLog

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class CumulativeSizes:
    """The sizes of one partition, all from the same moment."""

    topic_id: UUID
    log_start_offset: int
    end_offset: int
    """The high watermark."""
    bytes_before: dict[int, int]
    """By offset: size of the batches whose last offset is before it, from the log's first batch on the disk. Offsets
    before the log start count as the log start, those behind the end as the end. Also holds these two offsets."""


async def cumulative_sizes(
    queries: Iterable[tuple[TopicPartition, tuple[int, ...]]], log_of: LogByName
) -> dict[TopicPartition, CumulativeSizes]:
    """Sizes of each partition for these offsets; partitions that cannot be read now are left out."""
    found: dict[TopicPartition, CumulativeSizes] = {}
    for (topic, partition), offsets in queries:
        try:
            found[topic, partition] = measure(await log_of(topic, partition), offsets)
        except LogError:
            continue
        await asyncio.sleep(0)  # one query may cover thousands of partitions
    return found


def measure(log: PartitionLog, offsets: Iterable[int]) -> CumulativeSizes:
    """One short read per offset. Raises LogError if the log cannot be read there."""
    ends = (log.log_start_offset, log.high_watermark)
    return CumulativeSizes(
        topic_id=log.topic_id,
        log_start_offset=log.log_start_offset,
        end_offset=log.high_watermark,
        bytes_before={offset: log.bytes_before(offset) for offset in {*offsets, *ends}},
    )

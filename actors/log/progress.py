"""How far readers are behind, over the logs of the caller: log actors and coordinators alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from muster.actors.log.errors import LogError
from muster.actors.log.fetch import LogByName

_TURN_OFFSETS = 50
"""Looked up in one turn of the event loop: a millisecond or two, if each is in another batch."""


async def append_times(query: dict[str, Any], log_of: LogByName, now_ms: Callable[[], int]) -> dict[str, Any]:
    """Handle the query ``append_times``, whose ``partitions`` is a list of [topic, partition, offset].

    The response has ``now_ms`` (by the clock of the append times) and ``partitions``, one object for each:
    ``start_offset``, ``end_offset`` (the high watermark) and ``append_time_ms`` of the record at the offset, null if
    unknown; or ``error``, the name of Kafka's error.
    """
    by_partition: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for place, (topic, partition, offset) in enumerate(query["partitions"]):
        by_partition.setdefault((str(topic), int(partition)), []).append((int(offset), place))
    responses: list[dict[str, Any]] = [{}] * len(query["partitions"])
    for (topic, partition), wanted in by_partition.items():
        wanted.sort()
        for at in range(0, len(wanted), _TURN_OFFSETS):
            some = wanted[at : at + _TURN_OFFSETS]
            found = await _append_times(log_of, topic, partition, [offset for offset, _ in some])
            for (_, place), response in zip(some, found, strict=True):
                responses[place] = response
            await asyncio.sleep(0)
    return {"now_ms": now_ms(), "partitions": responses}


async def _append_times(log_of: LogByName, topic: str, partition: int, offsets: Sequence[int]) -> list[dict[str, Any]]:
    try:
        log = await log_of(topic, partition)
        ends = {"start_offset": log.log_start_offset, "end_offset": log.high_watermark}
        return [{**ends, "append_time_ms": each} for each in log.append_times_ms(offsets)]
    except LogError as error:
        return [{"error": error.code.name}] * len(offsets)

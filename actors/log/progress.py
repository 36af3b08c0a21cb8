"""How far readers are behind, over the logs of the caller: log actors and coordinators alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from muster.actors.log.errors import LogError
from muster.actors.log.fetch import LogByName


async def append_times(query: dict[str, Any], log_of: LogByName, now_ms: Callable[[], int]) -> dict[str, Any]:
    """Handle the query ``append_times``, whose ``partitions`` is a list of [topic, partition, offset].

    The response has ``now_ms`` (by the clock of the append times) and ``partitions``, one object for each:
    ``end_offset`` (the high watermark) and ``append_time_ms`` of the record at the offset, null if unknown; or
    ``error``, the name of Kafka's error.
    """
    requested = [(str(topic), int(partition), int(offset)) for topic, partition, offset in query["partitions"]]
    responses = []
    for topic, partition, offset in requested:
        responses.append(await _append_time(log_of, topic, partition, offset))
        await asyncio.sleep(0)  # one query may cover thousands
    return {"now_ms": now_ms(), "partitions": responses}


async def _append_time(log_of: LogByName, topic: str, partition: int, offset: int) -> dict[str, Any]:
    try:
        log = await log_of(topic, partition)
        return {"end_offset": log.high_watermark, "append_time_ms": log.append_time_ms(offset)}
    except LogError as error:
        return {"error": error.code.name}

"""Queries to many actors at once, beside Kafka's APIs, with one deadline for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from muster.actors.wire.internal.channel import Channel
from muster.gateway.listener.gateway import Gateway
from muster.placement.view import OFFSETS

log = logging.getLogger(__name__)

Responses = dict[int, dict[str, Any]]
"""By partition of the coordinators, or log actor."""


async def query_coordinators(
    gateway: Gateway,
    query: dict[str, Any],
    timeout_s: float,
    partitions: Iterable[int] | None = None,
    kind: str = OFFSETS,
) -> tuple[Responses, list[int]]:
    """Query the coordinators of these partitions, or of all that were ever started, at once.

    Returns the responses, and the partitions that did not respond in time, are down, or refused.
    """
    wanted = sorted(gateway.view.owners(kind) if partitions is None else partitions)
    channels = {partition: gateway.forwarder.channel((kind, partition)) for partition in wanted}
    responses = await _query(query, timeout_s, kind, channels)
    return responses, [partition for partition in wanted if partition not in responses]


async def query_logs(gateway: Gateway, query: dict[str, Any], timeout_s: float, logs: Iterable[int]) -> Responses:
    """Query log actors; return responses by index. Those that did not respond in time are left out."""
    return await _query(query, timeout_s, "log", {index: gateway.forwarder.log(index) for index in logs})


async def _query(
    query: dict[str, Any], timeout_s: float, kind: str, channels: Mapping[int, Channel | None]
) -> Responses:
    futures = {number: channel.query(query) for number, channel in channels.items() if channel is not None}
    try:
        if futures:
            await asyncio.wait(futures.values(), timeout=timeout_s)
        found = {number: _response(f"{kind}-{number}", future) for number, future in futures.items()}
    finally:
        for future in futures.values():
            future.cancel()
    return {number: response for number, response in found.items() if response is not None}


def _response(actor: str, future: asyncio.Future[dict[str, Any]]) -> dict[str, Any] | None:
    if not future.done():
        log.warning("%s did not answer in time", actor)
        return None
    if error := future.exception():
        log.warning("%s did not answer: %s", actor, error)
        return None
    response = future.result()
    if "error" in response:
        log.warning("%s could not answer: %s", actor, response["error"])
        return None
    return response

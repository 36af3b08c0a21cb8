"""Asking many actors one question beside Kafka's APIs, with a deadline for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from gateway.server import Gateway

log = logging.getLogger(__name__)

Answers = dict[int, dict[str, Any]]
"""By offsets partition."""


async def ask_all(
    gateway: Gateway, question: dict[str, Any], timeout_s: float, partitions: Iterable[int] | None = None
) -> tuple[Answers, list[int]]:
    """Ask the actors of these offsets partitions, or of all that were ever started, at once.

    Gives the answers, and the partitions that gave none in time, are down or refused.
    """
    wanted = sorted(gateway.view.offsets if partitions is None else partitions)
    channels = {partition: gateway.forwarder.offsets(partition) for partition in wanted}
    asked = {partition: channel.ask(question) for partition, channel in channels.items() if channel is not None}
    try:
        if asked:
            await asyncio.wait(asked.values(), timeout=timeout_s)
        found = {partition: _answer(partition, future) for partition, future in asked.items()}
    finally:
        for future in asked.values():
            future.cancel()
    answers = {partition: answer for partition, answer in found.items() if answer is not None}
    return answers, [partition for partition in wanted if partition not in answers]


def _answer(partition: int, future: asyncio.Future[dict[str, Any]]) -> dict[str, Any] | None:
    if not future.done():
        log.warning("offsets-%d did not answer in time", partition)
        return None
    if error := future.exception():
        log.warning("offsets-%d did not answer: %s", partition, error)
        return None
    answer = future.result()
    if "error" in answer:
        log.warning("offsets-%d could not answer: %s", partition, answer["error"])
        return None
    return answer

"""Queries to many actors at once, beside Kafka's APIs, with one deadline for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from muster.actors.wire.channel import Channel
from muster.gateway.listener.gateway import Gateway

log = logging.getLogger(__name__)

Answers = dict[int, dict[str, Any]]
"""By offsets partition or log actor."""


async def ask_all(
    gateway: Gateway, question: dict[str, Any], timeout_s: float, partitions: Iterable[int] | None = None
) -> tuple[Answers, list[int]]:
    """Query the actors of these offsets partitions, or of all that were ever started, at once.

    Returns the responses, and the partitions that did not respond in time, are down, or refused.
    """
    wanted = sorted(gateway.view.offsets if partitions is None else partitions)
    channels = {partition: gateway.forwarder.offsets(partition) for partition in wanted}
    answers = await _ask(question, timeout_s, "offsets", channels)
    return answers, [partition for partition in wanted if partition not in answers]


async def ask_logs(gateway: Gateway, question: dict[str, Any], timeout_s: float, logs: Iterable[int]) -> Answers:
    """The same for log actors, by index; those that did not respond in time are left out."""
    return await _ask(question, timeout_s, "log", {index: gateway.forwarder.log(index) for index in logs})


async def _ask(
    question: dict[str, Any], timeout_s: float, kind: str, channels: Mapping[int, Channel | None]
) -> Answers:
    asked = {number: channel.ask(question) for number, channel in channels.items() if channel is not None}
    try:
        if asked:
            await asyncio.wait(asked.values(), timeout=timeout_s)
        found = {number: _answer(f"{kind}-{number}", future) for number, future in asked.items()}
    finally:
        for future in asked.values():
            future.cancel()
    return {number: answer for number, answer in found.items() if answer is not None}


def _answer(actor: str, future: asyncio.Future[dict[str, Any]]) -> dict[str, Any] | None:
    if not future.done():
        log.warning("%s did not answer in time", actor)
        return None
    if error := future.exception():
        log.warning("%s did not answer: %s", actor, error)
        return None
    answer = future.result()
    if "error" in answer:
        log.warning("%s could not answer: %s", actor, answer["error"])
        return None
    return answer

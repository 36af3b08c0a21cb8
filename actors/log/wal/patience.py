"""Repeats a request until it has an outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster.actors.log.trouble import Trouble
from muster.actors.object_storage.store import Refused, Unavailable

log = logging.getLogger(__name__)

_FIRST_S, _MAX_S = 0.05, 2.0

T = TypeVar("T")


async def patiently(name: str, request: Callable[[], Awaitable[T]]) -> T:
    """Repeat the request while the service is unavailable or refuses it: credentials expire and are renewed.

    The caller cancels what takes too long for it.
    """
    trouble = Trouble(f"object storage: {name}", meanwhile="what waits for it goes on waiting")
    wait_s = _FIRST_S
    while True:
        try:
            found = await request()
        except (Unavailable, Refused) as error:
            trouble.failed(error)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _MAX_S)
        else:
            trouble.over()
            return found

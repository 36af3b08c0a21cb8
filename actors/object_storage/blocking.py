"""Requests of code that blocks: threads of actors, and commands."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end in an event loop of its own, and return its result.

    Where a loop runs already, as in a notebook, that is in another thread, and the loop stands still meanwhile.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="object-storage-wait") as thread:
        return thread.submit(asyncio.run, work).result()

"""Rules for the garbage collector: its objects and times, and the freed memory that is kept."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (10_000, 20, 50)
"""With Python's (700, 10, 10) it runs every few requests, but nearly all objects of a request are freed without it."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_TRIM_BYTES, _MMAP_BYTES = 64 << 20, 32 << 20
"""The second is the largest that glibc takes."""


def settle() -> None:
    """Exempt what has been allocated so far from collection, and collect less often. Call this when a start is over.

    Collections were a seventh of the Python code's time in a rebalance.
    """
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def gc_paused() -> Iterator[None]:
    """For code that allocates many long-lived objects without cycles, which the collector would only scan.

    Applies to the whole process: of overlapping blocks, the first to end turns collection on again.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def keep_freed_blocks() -> bool:
    """Keep the memory of large blocks that are freed, up to 64 MiB, for the next ones. Returns whether that works.

    By default glibc gives blocks of 128 KiB and more back when they are freed. Then each response of that size pays for
    its pages again: half of the processor time of a Fetch of 1 MiB. See mallopt(3); only glibc has it.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES) and mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
    )

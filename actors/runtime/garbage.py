"""What the garbage collector has to look at, and when."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (10_000, 20, 50)
"""Python's are (700, 10, 10): every few requests. Nearly all objects of a request are freed without the collector."""


def settle() -> None:
    """What has been allocated so far stays: the collector need not look at it again. Call this when a start is over.

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

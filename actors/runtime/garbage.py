"""What the garbage collector has to look at, and when."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (10_000, 20, 50)
"""With Python's (700, 10, 10) it runs every few requests, but nearly all objects of a request are freed without it."""


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

"""Garbage collection paused for a block of work."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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

"""A stretch of work without garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """What is made within, in great number and without cycles, stays for long: no garbage collection looks at it.

    For the whole process. Whoever begins first and ends first ends it for all.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()

"""How the C library's allocator treats large blocks."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_TRIM_BYTES, _MMAP_BYTES = 64 << 20, 32 << 20
"""The second is the largest that glibc takes."""


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

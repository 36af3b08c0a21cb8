"""Large blocks: a process that frees one keeps its pages."""

from __future__ import annotations

import subprocess
import sys

_FAULTS = """
import resource, sys
from muster.actors.runtime.memory import keep_freed_blocks
if sys.argv[1] == "kept":
    assert keep_freed_blocks()
bytearray(1 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    first, second = bytearray(1 << 20), bytearray(3 << 20)
    first[:], second[:] = b"1" * (1 << 20), b"2" * (3 << 20)
    del first, second
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    return int(subprocess.run([sys.executable, "-c", _FAULTS, how], capture_output=True, text=True, check=True).stdout)


def test_large_blocks_that_are_freed_and_allocated_again_keep_their_pages() -> None:
    kept, returned = page_faults("kept"), page_faults("returned")
    assert kept < 10_000 < returned

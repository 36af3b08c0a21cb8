"""MARKERS and MARKED, written and read."""

from __future__ import annotations

from uuid import UUID

import pytest

from muster.actors.wire.internal.markers import (
    NO_DECISION,
    Marker,
    read_marked,
    read_markers,
    write_marked,
    write_markers,
)
from muster.actors.wire.kafka.codec import ErrorCode

TOPIC = UUID("00000000-0000-4000-8000-000000000001")
MARKERS = [
    Marker(2**62, 32767, 2**31 - 1, True, 2, 2**40, 49, [(TOPIC, 0), (TOPIC, 2**31 - 1)]),
    Marker(0, 0, 0, False, 0, NO_DECISION, 0, []),
    Marker(1, 2, 3, False, 0, 4, 5, [(TOPIC, 6)]),
]
MARKED = [[ErrorCode.none, ErrorCode.transaction_coordinator_fenced], [], [ErrorCode.unknown_server_error]]
HEAD_BYTES = 5
"""Kind and token, which the connection reads."""


def test_markers_are_read_as_they_were_written() -> None:
    assert read_markers(write_markers(2**32 - 1, MARKERS)) == (2**32 - 1, MARKERS)


def test_results_are_read_as_they_were_written() -> None:
    assert read_marked(write_marked(7, MARKED)[HEAD_BYTES:]) == MARKED


def test_what_is_cut_off_is_refused() -> None:
    message = write_markers(1, MARKERS)
    for size in range(len(message)):
        with pytest.raises(ValueError, match=r"no token|truncated"):
            read_markers(message[:size])
    body = write_marked(1, MARKED)[HEAD_BYTES:]
    for size in range(len(body)):
        with pytest.raises(ValueError, match="truncated"):
            read_marked(body[:size])

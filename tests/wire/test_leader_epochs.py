"""EPOCHS, written and read."""

from __future__ import annotations

from uuid import UUID

import pytest

from muster.actors.wire.internal.leader_epochs import LeaderEpoch, read_epochs, write_epochs

EPOCHS = [LeaderEpoch(UUID(int=7), 0, 2**31 - 1), LeaderEpoch(UUID(int=2**128 - 1), 2**31 - 1, 0)]


def test_epochs_are_read_as_they_were_written() -> None:
    assert read_epochs(write_epochs(EPOCHS)) == EPOCHS
    assert read_epochs(write_epochs([])) == []


def test_epochs_that_are_cut_off_are_refused() -> None:
    message = write_epochs(EPOCHS)
    for size in range(1, len(message)):
        with pytest.raises(ValueError, match="truncated"):
            read_epochs(message[:size])

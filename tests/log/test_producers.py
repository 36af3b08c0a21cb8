"""Idempotent producers, rule by rule as in Kafka's ProducerStateManagerTest."""

from __future__ import annotations

import pytest

from muster.actors.log.errors import InvalidProducerEpoch, OutOfOrderSequence
from muster.actors.log.format.batch import MAX_SEQUENCE, BatchHeader, read_header
from muster.actors.log.producers import ProducerStates
from tests.log.support import client_batch


class Writer:
    def __init__(self) -> None:
        self.states = ProducerStates()
        self.end = 0

    def header(self, epoch: int, sequence: int, count: int = 1, producer_id: int = 7) -> BatchHeader:
        header = read_header(client_batch(count, producer=(producer_id, epoch, sequence)))
        return header._replace(base_offset=self.end)

    def write(self, epoch: int, sequence: int, count: int = 1) -> int | None:
        """Write; return the original offset for a duplicate."""
        header = self.header(epoch, sequence, count)
        duplicate = self.states.check(header)
        if duplicate is not None:
            return duplicate.base_offset
        self.states.update(header)
        self.end = header.next_offset
        return None


def test_the_last_five_batches_are_known() -> None:
    writer = Writer()
    for index in range(6):
        assert writer.write(0, index * 2, 2) is None
    assert [writer.write(0, index * 2, 2) for index in range(1, 6)] == [2, 4, 6, 8, 10]
    with pytest.raises(OutOfOrderSequence):
        writer.write(0, 0, 2)


@pytest.mark.parametrize("sequence", [0, 4, 6, 100])
def test_only_the_next_sequence_follows(sequence: int) -> None:
    writer = Writer()
    writer.write(0, 2, 3)
    with pytest.raises(OutOfOrderSequence):
        writer.write(0, sequence, 2)
    assert writer.write(0, 5) is None


def test_an_unknown_producer_may_start_anywhere_but_a_new_epoch_starts_at_0() -> None:
    writer = Writer()
    assert writer.write(3, 500) is None
    with pytest.raises(OutOfOrderSequence):
        writer.write(4, 501)
    assert writer.write(4, 0) is None
    with pytest.raises(InvalidProducerEpoch):
        writer.write(3, 501)
    assert writer.write(4, 1) is None


def test_the_sequence_wraps() -> None:
    writer = Writer()
    assert writer.write(0, MAX_SEQUENCE - 1, 4) is None
    assert writer.header(0, MAX_SEQUENCE - 1, 4).last_sequence == 1
    assert writer.write(0, 2) is None
    assert writer.write(0, MAX_SEQUENCE - 1, 4) == 0
    writer = Writer()
    assert writer.write(0, MAX_SEQUENCE) is None
    assert writer.write(0, 0) is None


def test_updates_are_taken_back_in_reverse() -> None:
    writer = Writer()
    first, second = writer.header(0, 0), writer.header(1, 0)
    undo = [writer.states.update(header) for header in (first, second)]
    for header, before in zip((second, first), reversed(undo), strict=True):
        writer.states.restore(header.producer_id, before)
    assert writer.states.entry(7) is None

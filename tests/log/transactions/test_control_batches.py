"""Control batches, byte by byte as Kafka writes them."""

from __future__ import annotations

import pytest

from muster.actors.log.errors import InvalidRecord
from muster.actors.log.format.batch import check_client_batch, read_header, seal
from muster.actors.log.format.control import EndOfTransaction, control_batch, read_control
from tests.log.support import NOW_MS

COMMIT = bytes.fromhex(
    "000000000000000a 00000042 00000003 02 40d514e9 0030 00000000 0000018bcfe56800 0000018bcfe56800 00000000000003e8 "
    "0005 ffffffff 00000001 20 00 00 00 08 00000001 0c 000000000007 00"
)


@pytest.mark.parametrize(("is_commit", "crc"), [(True, 0x40D514E9), (False, 0xB4EBC2A1)])
def test_a_control_batch_is_the_one_that_kafka_writes(is_commit: bool, crc: int) -> None:
    batch = control_batch(1000, 5, EndOfTransaction(is_commit, 7), NOW_MS, 10, 3)
    header = read_header(batch)
    assert (len(batch), header.crc, header.next_offset) == (78, crc, 11)
    assert header.is_control
    assert header.is_transactional
    assert read_control(batch, header) == EndOfTransaction(is_commit, 7)
    if is_commit:
        assert batch == COMMIT


@pytest.mark.parametrize(("at", "byte"), [(67, 1), (69, 2), (71, 1)])
def test_unknown_types_and_versions_are_skipped(at: int, byte: int) -> None:
    batch = bytearray(COMMIT)
    batch[at] = byte
    seal(batch)
    assert read_control(batch, read_header(batch)) in (None, EndOfTransaction(True, 7))
    if at < 70:
        assert read_control(batch, read_header(batch)) is None


def test_a_control_batch_without_records_says_nothing() -> None:
    header = read_header(COMMIT)._replace(record_count=0)
    assert read_control(COMMIT[:61], header._replace(length=49)) is None


def test_no_client_may_send_one() -> None:
    with pytest.raises(InvalidRecord):
        check_client_batch(COMMIT, 1 << 20)

"""Records of __transaction_state, byte by byte."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.actors.group.errors import CorruptRecord
from muster.actors.transactions.codec.records import decode_key, decode_value, transaction_record
from muster.actors.transactions.state import TransactionMetadata, TransactionState
from muster.actors.transactions.types import TransactionalId

TX1 = TransactionalId("tx1")
EMPTY = TransactionMetadata(
    producer_id=1000,
    producer_epoch=0,
    timeout_ms=60_000,
    state=TransactionState.EMPTY,
    last_update_ms=1_700_000_000_000,
)
ONGOING = replace(
    EMPTY,
    producer_epoch=5,
    state=TransactionState.ONGOING,
    partitions=frozenset({("t", 3), ("t", 0)}),
    start_ms=1_699_999_990_000,
)
PREPARED = replace(ONGOING, producer_epoch=6, state=TransactionState.PREPARE_COMMIT, client_transaction_version=2)
VECTORS = [
    (EMPTY, 0, "000000000000000003e800000000ea6000ffffffff0000018bcfe56800ffffffffffffffff"),
    (
        ONGOING,
        0,
        "000000000000000003e800050000ea6001000000010001740000000200000000000000030000018bcfe568000000018bcfe540f0",
    ),
    (
        PREPARED,
        2,
        "000100000000000003e800060000ea6002020274030000000000000003000000018bcfe568000000018bcfe540f00102020002",
    ),
]


@pytest.mark.parametrize(("value", "version", "expected"), VECTORS)
def test_bytes(value: TransactionMetadata, version: int, expected: str) -> None:
    record = transaction_record(TX1, value, version)
    assert record.key.hex() == "00000003747831"
    assert record.value is not None
    assert record.value.hex() == expected
    assert decode_value(record.value) == value
    assert decode_key(record.key) == TX1


def test_a_tombstone() -> None:
    assert transaction_record(TX1, None, 2).value is None


def test_what_only_version_1_can_carry_is_never_lost() -> None:
    value = replace(ONGOING, next_producer_id=7)
    record = transaction_record(TX1, value, 0)
    assert record.value is not None
    assert decode_value(record.value) == value


def test_both_versions_are_read_in_one_log() -> None:
    values = [transaction_record(TX1, ONGOING, version).value for version in (0, 1)]
    assert [value and value[1] for value in values] == [0, 1]
    assert {decode_value(value or b"") for value in values} == {ONGOING}


def test_unknown_tags_are_skipped() -> None:
    record = transaction_record(TX1, PREPARED, 2)
    assert record.value is not None
    with_epoch_of_two_phase_commit = record.value[:-5] + bytes.fromhex("02 02020002 03020001".replace(" ", ""))
    assert decode_value(with_epoch_of_two_phase_commit) == PREPARED


def test_an_unknown_key_version_is_skipped_and_an_unknown_value_is_not() -> None:
    assert decode_key(b"\x00\x01\x00\x01x") is None
    for corrupt in (
        b"\x00\x02",
        b"",
        b"\x00\x01\x00",
        bytes.fromhex(VECTORS[0][2]).replace(b"\x60\x00\xff", b"\x60\x09\xff"),
    ):
        with pytest.raises(CorruptRecord):
            decode_value(corrupt)


partitions = st.frozensets(st.tuples(st.text("tuü", min_size=1, max_size=200), st.integers(0, 2**31 - 1)))
int64 = st.integers(-1, 2**63 - 1)


@given(
    value=st.builds(
        TransactionMetadata,
        producer_id=int64,
        producer_epoch=st.integers(-1, 32_767),
        timeout_ms=st.integers(0, 2**31 - 1),
        state=st.sampled_from([state for state in TransactionState if state is not TransactionState.EMPTY]),
        partitions=partitions,
        last_update_ms=int64,
        start_ms=int64,
        previous_producer_id=int64,
        next_producer_id=int64,
        client_transaction_version=st.integers(0, 2),
    ),
    version=st.integers(0, 2),
)
def test_every_value_is_read_as_written(value: TransactionMetadata, version: int) -> None:
    record = transaction_record(TX1, value, version)
    assert record.value is not None
    assert decode_value(record.value) == value
    for size in range(0, len(record.value), 7):
        with pytest.raises(CorruptRecord):
            decode_value(record.value[:size])

"""Batches of clients: what is accepted can be read, and what takes long is checked beside the event loop."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.actors.log.errors import InvalidRecord, InvalidRecords, MessageTooLarge
from muster.actors.log.format.batch import read_header
from muster.actors.log.format.client_batch import AT_ONCE_RECORDS, MAX_RECORD_ERRORS, ClientBatch, Rules
from muster.actors.log.format.compression import AT_ONCE_BYTES, MAX_RECORDS_BYTES
from muster.actors.log.format.records import read_records
from tests.gateway.apis.produced.batches import batch, header, record, varint
from tests.log.support import GZIP, LZ4, NONE, NOW_MS, SNAPPY, ZSTD, client_batch

RULES = Rules("t-0", max_message_bytes=1 << 30, needs_keys=False)
CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
TEXTS = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.binary(max_size=70), TEXTS), max_size=3).map(
    lambda pairs: varint(len(pairs)) + b"".join(header(*pair) for pair in pairs)
)
RECORDS = st.lists(
    st.fixed_dictionaries({"key": TEXTS, "value": TEXTS, "ms": st.integers(-(1 << 40), 1 << 40), "headers": HEADERS}),
    min_size=1,
    max_size=100,
)


def payload_of(records: list[dict[str, Any]]) -> bytes:
    return b"".join(record(delta, **fields) for delta, fields in enumerate(records))


@given(records=RECORDS, codec=st.sampled_from(CODECS))
def test_what_clients_write_is_accepted(records: list[dict[str, Any]], codec: int) -> None:
    content = batch(payload_of(records), NOW_MS, len(records), codec=codec)
    times_ms = [NOW_MS + fields["ms"] for fields in records]
    assert ClientBatch(content).check(RULES) == (read_header(content), max(times_ms))
    with_keys = RULES._replace(needs_keys=True)
    if all(fields["key"] is not None for fields in records):
        ClientBatch(content).check(with_keys)
    else:
        with pytest.raises(InvalidRecords) as refused:
            ClientBatch(content).check(with_keys)
        keyless = [index for index, fields in enumerate(records) if fields["key"] is None]
        assert [error.batch_index for error in refused.value.record_errors] == keyless


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193, 20_000])
def test_offsets_of_every_length(count: int) -> None:
    ClientBatch(client_batch(count)).check(RULES)


@given(records=RECORDS, data=st.data())
def test_what_is_accepted_can_be_read(records: list[dict[str, Any]], data: st.DataObject) -> None:
    payload = bytearray(payload_of(records))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    content = batch(bytes(payload), NOW_MS, len(records))
    try:
        accepted = ClientBatch(content).check(RULES)
    except InvalidRecord:
        return
    assert [each.offset for each in read_records(content, accepted.header)] == list(range(len(records)))


def test_the_list_of_invalid_records_is_limited() -> None:
    """The batch is small, the response would not be."""
    count = 3 * MAX_RECORD_ERRORS
    content = batch(b"".join(record(delta, key=None) for delta in range(count)), NOW_MS, count, codec=ZSTD)
    with pytest.raises(InvalidRecords, match=f"due to {count} record errors in total") as refused:
        ClientBatch(content).check(RULES._replace(needs_keys=True))
    assert [error.batch_index for error in refused.value.record_errors] == list(range(MAX_RECORD_ERRORS))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_batch_that_unpacks_to_too_much_is_too_large(codec: int) -> None:
    """Java's producer divides it then, and sends the parts."""
    content = client_batch(1, codec=codec, value=bytes(MAX_RECORDS_BYTES))
    assert not ClientBatch(content).is_short()
    with pytest.raises(MessageTooLarge):
        ClientBatch(content).check(RULES)


@pytest.mark.parametrize("codec", CODECS)
def test_only_what_takes_long_is_not_short(codec: int) -> None:
    assert ClientBatch(client_batch(AT_ONCE_RECORDS, codec=codec)).is_short()
    assert not ClientBatch(client_batch(AT_ONCE_RECORDS + 1, codec=codec)).is_short()
    assert ClientBatch(client_batch(1, codec=codec, value=bytes(AT_ONCE_BYTES - 100))).is_short()
    assert ClientBatch(client_batch(1, codec=codec, value=bytes(AT_ONCE_BYTES + 100))).is_short() == (codec == NONE)
    for unsound in (b"", client_batch(1)[:30], batch(b"", NOW_MS, codec=codec or 5, packed=b"x" * 50)):
        assert ClientBatch(unsound).is_short()

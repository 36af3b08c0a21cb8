"""Partitions of keys: numpy's as those of the loop, which are Kafka's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.actors.log.format.arrow.partitioning import partitions_of
from muster.placement.hashing import partition_of

KEYS = st.lists(st.none() | st.binary(max_size=13) | st.sampled_from([bytes(range(256)), b"\xff" * 1_001]), max_size=60)
COUNTS = st.integers(1, 1 << 31) | st.integers(1, 12)


def expected(keys: list[bytes | None], count: int) -> list[int]:
    return [-1 if key is None else partition_of(key, count) for key in keys]


@given(keys=KEYS, count=COUNTS, cut=st.integers(0, 60))
def test_partitions_are_those_of_the_loop(keys: list[bytes | None], count: int, cut: int) -> None:
    column = pa.array(keys, pa.binary())
    assert partitions_of(column, count).tolist() == expected(keys, count)
    assert partitions_of(column[cut:], count).tolist() == expected(keys[cut:], count)
    assert partitions_of(pa.chunked_array([column[:cut], column[cut:]]), count).tolist() == expected(keys, count)


@pytest.mark.parametrize("size", range(14))
def test_every_length(size: int) -> None:
    keys: list[bytes | None] = [bytes((index * 7 + at * 31) & 0xFF for at in range(size)) for index in range(200)]
    assert partitions_of(pa.array(keys, pa.binary()), 1_000).tolist() == expected(keys, 1_000)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_strings_are_their_utf8(kind: pa.DataType) -> None:
    texts = ["ä", "", "text"] * 10
    assert partitions_of(pa.array(texts, kind), 7).tolist() == expected([text.encode() for text in texts], 7)


@pytest.mark.parametrize(
    ("keys", "count", "error"), [(pa.array([1]), 3, TypeError), (pa.array([b"a"]), 0, ValueError)], ids=str
)
def test_what_has_no_partition(keys: Any, count: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        partitions_of(keys, count)

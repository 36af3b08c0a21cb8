"""Kafka's hashes, compared with values computed by a JVM."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.placement.hashing import java_string_hash, partition_for, partition_of

# group id, String.hashCode, partition of 50, partition of 3
JVM_VECTORS = [
    ("", 0, 0, 0),
    ("a", 97, 47, 1),
    ("grp", 102629, 29, 2),
    ("g1", 3242, 42, 2),
    ("my-group", -1906497762, 12, 0),
    ("test-group", 627841412, 12, 2),
    ("group-id", 506313513, 13, 0),
    ("console-consumer-1", 35782224, 24, 0),
    ("connect-cluster", 1440343063, 13, 1),
    ("order-service", 562889526, 26, 0),
    ("消费者组", 871131088, 38, 1),
    ("caf\u00e9", 3045921, 21, 0),
    ("\U0001f600", 1772899, 49, 1),
    ("grp-\U0001f600", -1235730613, 13, 1),
    ("polygenelubricants", -2147483648, 0, 0),
    ("group-5xrum29", -2147483648, 0, 0),
    ("Aa", 2112, 12, 0),
    ("BB", 2112, 12, 0),
    ("schema-registry", -2135014679, 29, 2),
    ("foo\u0000bar", -683461159, 9, 1),
]


@pytest.mark.parametrize(("group_id", "hash_code", "of_50", "of_3"), JVM_VECTORS)
def test_as_on_the_jvm(group_id: str, hash_code: int, of_50: int, of_3: int) -> None:
    assert java_string_hash(group_id) == hash_code
    assert (partition_for(group_id, 50), partition_for(group_id, 3)) == (of_50, of_3)


@given(st.text(max_size=200), st.integers(1, 3))
def test_as_one_character_after_the_other(text: str, times: int) -> None:
    expected = 0
    units = (text * times).encode("utf-16-be")
    for at in range(0, len(units), 2):
        expected = (31 * expected + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    assert java_string_hash(text * times) & 0xFFFFFFFF == expected


def test_of_the_longest_names() -> None:
    """Sums are greatest for 32,767 units of 65,535 each."""
    expected = 0
    for _ in range(32_767):
        expected = (31 * expected + 0xFFFF) & 0xFFFFFFFF
    assert java_string_hash(32_767 * "\uffff") & 0xFFFFFFFF == expected


@given(st.text(), st.integers(1, 1000))
def test_every_group_has_a_partition(group_id: str, partitions: int) -> None:
    assert 0 <= partition_for(group_id, partitions) < partitions


def test_a_lone_surrogate_hashes_as_its_code_unit() -> None:
    assert java_string_hash("\ud83d") == 0xD83D


def test_no_partitions_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one partition"):
        partition_for("g", 0)


@pytest.mark.parametrize(
    ("key", "murmur2"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (bytes([12, 42, 56, 24, 109, 111]), 274204207),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_partitions_of_keys(key: bytes, murmur2: int) -> None:
    """Apache Kafka, UtilsTest.testMurmur2."""
    assert partition_of(key, 1 << 31) == murmur2 & 0x7FFFFFFF
    assert partition_of(key, 7) == (murmur2 & 0x7FFFFFFF) % 7

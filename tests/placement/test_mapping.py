"""Names and contents of the mapping's nodes. Rows F7 to F10 of KoP's failures are tested here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.placement.layout import Malformed
from muster.placement.mapping.nodes import (
    MAX_SEGMENT,
    Undecodable,
    canonical_host,
    client_path,
    decode_registration,
    decode_segment,
    encode_host,
    encode_registration,
    encode_segment,
    group_of_path,
    host_text,
    is_kop_path,
    is_registration_path,
    kop_path,
    registration_path,
)
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.placement.strategies import TEXTS, registration


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1:5123", "10.0.0.1"),
        ("/10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("[::1]:9092", "::1"),
        ("2001:0DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"),
        ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("[::ffff:a00:1]:80", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%2]:80", "fe80::1"),
    ],
)
def test_one_client_has_one_host(peer: str, host: str) -> None:
    assert canonical_host(peer) == host_text(peer) == host


@pytest.mark.parametrize("peer", ["", "localhost", "10.0.0", "name/10.0.0.1:80", "1:2:3"])
def test_what_is_no_address_is_an_error(peer: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        canonical_host(peer)
    assert host_text(peer) == peer


@pytest.mark.parametrize(
    ("text", "segment"),
    [
        ("rdkafka", "rdkafka"),
        ("consumer-billing-1", "consumer-billing-1"),
        (None, "%~"),
        ("", "%."),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("a/b:c", "a%2Fb%3Ac"),
        ("%~", "%25~"),
        ("é\n", "%C3%A9%0A"),
    ],
)
def test_segments(text: str | None, segment: str) -> None:
    assert encode_segment(text) == segment
    assert decode_segment(segment) == text


@given(st.none() | TEXTS)
def test_a_segment_is_read_as_it_was_written_unless_it_was_cut(text: str | None) -> None:
    segment = encode_segment(text)
    assert 0 < len(segment) <= MAX_SEGMENT
    assert not set(segment) & set("/:")
    try:
        assert decode_segment(segment) == text
    except Undecodable:
        assert text is not None
        assert len(text.encode("utf-8", "surrogatepass")) * 3 > MAX_SEGMENT


@given(st.lists(st.none() | TEXTS, min_size=2, max_size=2, unique=True))
def test_different_strings_have_different_segments(texts: list[str | None]) -> None:
    assert encode_segment(texts[0]) != encode_segment(texts[1])
    long = ["x" * 500 + (text or str(text)) for text in texts]
    assert (encode_segment(long[0]) == encode_segment(long[1])) == (long[0] == long[1])


@pytest.mark.parametrize("segment", ["", "%", "%zz", "a%2", "%2f", "a/b", "%41", "%ff", "x%h0123"])
def test_what_nothing_encodes_to_is_undecodable(segment: str) -> None:
    with pytest.raises(Undecodable):
        decode_segment(segment)


@pytest.mark.parametrize("keep", range(MAX_SEGMENT - 40, MAX_SEGMENT + 1))
def test_a_cut_never_splits_an_escape(keep: int) -> None:
    segment = encode_segment("x" * keep + "é" * 100)
    assert len(segment) <= MAX_SEGMENT
    assert "%%" not in segment.replace("%h", "%")
    with pytest.raises(Undecodable):
        decode_segment(segment)


def test_ipv6_neighbours_do_not_share_a_node() -> None:
    assert client_path("2001:db8::1", "c") == "/client_group_id/2001%3Adb8%3A%3A1/c"
    assert kop_path("2001:db8::1", "c") != kop_path("2001:db8::2", "c")


def test_paths() -> None:
    one = registration("a:b", "m/1", client_id=None)
    assert registration_path(one) == "/client_group_id/10.0.0.1/%~/a%3Ab:m%2F1"
    assert group_of_path(registration_path(one)) == "a:b"
    assert kop_path("10.0.0.1", "rdkafka") == "/client_group_id/10.0.0.1-rdkafka"
    assert is_kop_path("/client_group_id/10.0.0.1-rdkafka")
    assert not is_kop_path("/client_group_id/10.0.0.1")
    assert not is_registration_path("/client_group_id/10.0.0.1/rdkafka")
    assert group_of_path("/client_group_id/h/c/no-colon") is None
    assert group_of_path(f"/client_group_id/h/c/{encode_segment('x' * 999)}:m") is None


@given(group=TEXTS, member=TEXTS, client_id=st.none() | TEXTS, host=TEXTS)
def test_registrations_are_read_as_they_were_written(group: str, member: str, client_id: str | None, host: str) -> None:
    one = registration(group, member, client_id=client_id, host=host)
    path = registration_path(one)
    assert is_registration_path(path)
    assert is_kop_path(kop_path(host, client_id))
    assert "-" not in encode_host(host)
    assert decode_registration(path, encode_registration(one)) == one


@given(partitions=st.none() | st.frozensets(st.tuples(st.text(max_size=5), st.integers(0, 9)), max_size=5))
def test_equal_registrations_have_equal_data(partitions: Any) -> None:
    one = registration("g", partitions=partitions)
    again = registration("g", partitions=None if partitions is None else frozenset(sorted(partitions, reverse=True)))
    assert encode_registration(one) == encode_registration(again)
    assert decode_registration(registration_path(one), encode_registration(one)) == one


@pytest.mark.parametrize(
    "data", [b"", b"billing", b"null", b"[]", b"{}", b"\xff", encode_registration(registration("other"))]
)
def test_other_data_are_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode_registration(registration_path(registration("billing")), data)


@pytest.mark.parametrize("field", ["epoch", "sequence", "generation", "offsets_partition", "group", "partitions"])
@pytest.mark.parametrize("value", ['"x"', "true", "1.5", "[1]", "{}", "null"])
def test_a_field_of_another_type_is_malformed_or_harmless(field: str, value: str) -> None:
    one = registration("billing")
    fields = json.loads(encode_registration(one)) | {field: json.loads(value)}
    path = registration_path(one)
    try:
        decoded = decode_registration(path, json.dumps(fields).encode())
    except Malformed:
        return
    assert field == "partitions"
    assert decoded.partitions in (None, frozenset())


@pytest.mark.parametrize(
    "text", ["", ".", "..", "/", "//", "a/", "\0", "\x7f", "\uffff", "zookeeper", "x" * 5000, None]
)
def test_zookeeper_takes_every_name(zk: ZooKeeperClient, text: str | None) -> None:
    path = registration_path(registration(text or "", text or "", client_id=text, host=text or ""))
    zk.create(path, b"", makepath=True)
    zk.create(kop_path(text or "", text))
    assert len(zk.get_children("/client_group_id")) == 2

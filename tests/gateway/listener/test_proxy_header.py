"""The PROXY protocol's header, byte by byte: sections 2.2 and 2.3 of HAProxy's proxy-protocol.txt."""

from __future__ import annotations

import pytest

from muster.gateway.listener.proxy_protocol import (
    MAX_BYTES,
    SIGNATURE,
    BadHeader,
    Header,
    Source,
    read_header,
    write_header,
)

TCP4 = SIGNATURE + bytes.fromhex("21 11 000c 0a000007 0a000001 d431 2384")
TCP6 = SIGNATURE + bytes.fromhex(
    f"21 21 0024 {'20010db8' + '00' * 11 + '07'} {'20010db8' + '00' * 11 + '01'} d431 2384"
)
TLVS = bytes.fromhex("01 0003 6b6166 04 0000 20 0005 01 00000000")
WITH_TLVS = SIGNATURE + b"\x21\x11" + (12 + len(TLVS)).to_bytes(2, "big") + TCP4[16:] + TLVS
LOCAL = SIGNATURE + bytes.fromhex("20 00 0000")
LOCAL_WITH_ADDRESSES = SIGNATURE + bytes.fromhex("20 11 000c 0a000007 0a000001 d431 2384")
UNSPEC = SIGNATURE + bytes.fromhex("21 00 0003 010203")
OF_A_CLIENT = b"\0\0\0\x0f what comes next"

WHOLE = {
    "tcp4": (TCP4, Source("10.0.0.7", 54321)),
    "tcp6": (TCP6, Source("2001:db8::7", 54321)),
    "tlvs": (WITH_TLVS, Source("10.0.0.7", 54321)),
    "local": (LOCAL, None),
    "local with addresses": (LOCAL_WITH_ADDRESSES, None),
    "unspec": (UNSPEC, None),
}


@pytest.mark.parametrize(("data", "source"), WHOLE.values(), ids=WHOLE.keys())
def test_a_header_torn_anywhere(data: bytes, source: Source | None) -> None:
    for cut in range(len(data)):
        assert read_header(data[:cut]) is None
    for cut in range(len(data), len(data + OF_A_CLIENT) + 1):
        assert read_header((data + OF_A_CLIENT)[:cut]) == Header(source, len(data))


@pytest.mark.parametrize("data", [TCP4, TCP6])
def test_what_is_written_is_what_balancers_write(data: bytes) -> None:
    header = read_header(data)
    assert header is not None
    assert header.source is not None
    there = Source("10.0.0.1" if data is TCP4 else "2001:db8::1", 9092)
    assert write_header(header.source, there) == data


def test_addresses_of_two_families_are_not_written() -> None:
    with pytest.raises(ValueError, match="not of one address family"):
        write_header(Source("10.0.0.7", 1), Source("::1", 2))


BAD = {
    "version 3": (SIGNATURE + bytes.fromhex("31 11 000c") + bytes(12), "version 3"),
    "version 1 in the binary header": (SIGNATURE + bytes.fromhex("11 11 000c") + bytes(12), "version 1"),
    "an unknown command": (SIGNATURE + bytes.fromhex("22 11 000c") + bytes(12), "command 2"),
    "udp": (SIGNATURE + bytes.fromhex("21 12 000c") + bytes(12), "0x12"),
    "a unix socket": (SIGNATURE + bytes.fromhex("21 31 00d8") + bytes(216), "0x31"),
    "no room for the addresses": (SIGNATURE + bytes.fromhex("21 11 000b") + bytes(11), "11 bytes of addresses"),
    "no room for ipv6": (SIGNATURE + bytes.fromhex("21 21 000c") + bytes(12), "12 bytes of addresses"),
    "too long": (SIGNATURE + bytes.fromhex("21 11 ffff"), "65551 bytes"),
}


@pytest.mark.parametrize(("data", "why"), BAD.values(), ids=BAD.keys())
def test_what_is_not_understood_is_refused_with_the_fixed_part(data: bytes, why: str) -> None:
    for cut in range(16):
        assert read_header(data[:cut]) is None
    for end in {16, len(data)}:
        with pytest.raises(BadHeader, match=why):
            read_header(data[:end])


def test_the_longest_header() -> None:
    length = MAX_BYTES - 16
    longest = SIGNATURE + b"\x21\x11" + length.to_bytes(2, "big") + TCP4[16:] + bytes(length - 12)
    assert read_header(longest) == Header(Source("10.0.0.7", 54321), MAX_BYTES)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"PROXY TCP4 10.0.0.7 10.0.0.1 54321 9092\r\n", "version 1 of the PROXY protocol"),
        (b"\0\0\0\x0f\0\x12\0\x03", "no PROXY protocol header came first"),
        (b"\x16\x03\x01\x02", "no PROXY protocol header came first"),
        (SIGNATURE[:-1] + b"?", "no PROXY protocol header came first"),
    ],
)
def test_a_wrong_header_is_refused_at_the_first_byte_that_differs(data: bytes, why: str) -> None:
    with pytest.raises(BadHeader, match=why):
        read_header(data)
    differs = next(i for i in range(1, len(data) + 1) if not SIGNATURE.startswith(data[:i]))
    with pytest.raises(BadHeader):
        read_header(data[:differs])
    assert read_header(data[: differs - 1]) is None

from __future__ import annotations

import socket
import struct

from tests.attribution.captured.streams import (
    ACK,
    FIN,
    SYN,
    Connection,
    Direction,
    Endpoint,
    Segment,
    connections,
    parse,
)

CLIENT, GATEWAY = ("127.0.0.1", 40_001), ("127.0.0.1", 9092)


def packet(source: Endpoint, target: Endpoint, sequence: int, payload: bytes = b"", flags: int = ACK) -> bytes:
    """With options in both headers, as Linux sends them."""
    tcp = struct.pack(">HHIIBBHHH", source[1], target[1], sequence, 0, 8 << 4, flags, 512, 0, 0) + bytes(12)
    addresses = socket.inet_aton(source[0]) + socket.inet_aton(target[0])
    total = 24 + len(tcp) + len(payload)
    return struct.pack(">BBHIBBH", 0x46, 0, total, 0, 64, 6, 0) + addresses + bytes(4) + tcp + payload


def stream(*segments: tuple[int, bytes], first: int = 99, flags: int = ACK) -> Direction:
    """Segments after a SYN, by their place in the stream."""
    direction = Direction()
    direction.add(Segment(CLIENT, GATEWAY, first, SYN, b""))
    for at, payload in segments:
        direction.add(Segment(CLIENT, GATEWAY, (first + 1 + at) % (1 << 32), flags, payload))
    return direction


def test_a_packet() -> None:
    assert parse(packet(CLIENT, GATEWAY, 7, b"abc")) == Segment(CLIENT, GATEWAY, 7, ACK, b"abc")


def test_a_packet_longer_than_its_length_can_say() -> None:
    long = bytearray(packet(CLIENT, GATEWAY, 7, b"abc"))
    long[2:4] = b"\0\0"
    assert parse(bytes(long)).payload == b"abc"


def test_out_of_order() -> None:
    found = stream((6, b"gh"), (3, b"def"), (0, b"abc"))
    assert (found.data, found.is_whole) == (b"abcdefgh", True)


def test_sent_again() -> None:
    assert stream((0, b"abc"), (0, b"abc"), (3, b"d")).data == b"abcd"


def test_sent_again_in_other_segments() -> None:
    assert stream((0, b"abc"), (5, b"f"), (1, b"bcde"), (2, b"cd"), (5, b"fg")).data == b"abcdefg"


def test_a_probe_repeats_the_last_byte() -> None:
    assert stream((0, b"abc"), (2, b"c"), (2, b"")).data == b"abc"


def test_numbers_wrap() -> None:
    found = stream((0, b"abc"), (5, b"fg"), (3, b"de"), first=(1 << 32) - 4)
    assert (found.data, found.is_whole) == (b"abcdefg", True)


def test_a_gap() -> None:
    found = stream((0, b"abc"), (5, b"f"))
    assert (found.data, found.is_whole) == (b"abc", False)


def test_an_end_that_is_missing() -> None:
    whole, cut = stream((0, b"abc")), stream((0, b"abc"))
    whole.add(Segment(CLIENT, GATEWAY, 103, FIN | ACK, b""))
    cut.add(Segment(CLIENT, GATEWAY, 104, FIN | ACK, b""))
    assert (whole.is_whole, cut.is_whole) == (True, False)


def opened(client: int, gateway: int) -> list[bytes]:
    return [packet(CLIENT, GATEWAY, client, flags=SYN), packet(GATEWAY, CLIENT, gateway, flags=SYN | ACK)]


def texts(found: list[Connection]) -> list[tuple[bytes, bytes, bool]]:
    return [(bytes(c.from_client.data), bytes(c.from_gateway.data), c.is_whole) for c in found]


def test_both_directions() -> None:
    packets = [*opened(10, 20), packet(CLIENT, GATEWAY, 11, b"to"), packet(GATEWAY, CLIENT, 21, b"from")]
    assert texts(connections(packets, {9092})) == [(b"to", b"from", True)]


def test_a_port_is_used_again() -> None:
    first = [*opened(10, 20), packet(CLIENT, GATEWAY, 11, b"one")]
    again = [*opened(500, 20), packet(CLIENT, GATEWAY, 501, b"two")]
    assert texts(connections(first + again, {9092})) == [(b"one", b"", True), (b"two", b"", True)]


def test_a_connection_request_that_is_repeated() -> None:
    packets = [*opened(10, 20)[:1], *opened(10, 20), packet(CLIENT, GATEWAY, 11, b"one")]
    assert texts(connections(packets, {9092})) == [(b"one", b"", True)]


def test_a_connection_that_began_before() -> None:
    assert texts(connections([packet(CLIENT, GATEWAY, 11, b"one")], {9092})) == [(b"", b"", False)]

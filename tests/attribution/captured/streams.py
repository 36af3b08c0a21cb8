"""Packets to TCP connections: what each side of them received, in order and once (RFC 9293)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Endpoint = tuple[str, int]
"""Address and port."""

FIN, SYN, ACK = 0x01, 0x02, 0x10
_WORD, _HALF = 1 << 32, 1 << 31


class Segment(NamedTuple):
    source: Endpoint
    target: Endpoint
    sequence: int
    flags: int
    payload: bytes


def parse(packet: bytes) -> Segment:
    """Parse an IPv4 packet with a TCP segment."""
    start = (packet[0] & 0x0F) * 4
    (total,) = struct.unpack_from(">H", packet, 2)
    source_port, target_port, sequence = struct.unpack_from(">HHI", packet, start)
    offset, flags = packet[start + 12] >> 4, packet[start + 13]
    source, target = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])
    payload = packet[start + offset * 4 : total or None]  # 0: longer than 65,535 bytes
    return Segment((source, source_port), (target, target_port), sequence, flags, payload)


class Direction:
    """Stream of one side of a connection. Segments may be late, repeated, and overlap."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.first: int | None = None
        """The sequence number of the SYN."""
        self._later: dict[int, bytes] = {}
        """Payloads behind a gap, by their place in the stream."""
        self._end: int | None = None
        """Where the stream ends, once a FIN says so."""
        self._before_syn: list[Segment] = []

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing in between or, where the sender has closed the stream, at its end."""
        return self.first is not None and not self._later and self._end in (None, len(self.data))

    def add(self, segment: Segment) -> None:
        if segment.flags & SYN:
            self.first = segment.sequence
            early, self._before_syn = self._before_syn, []
            for each in early:
                self.add(each)
            return
        if self.first is None:
            self._before_syn.append(segment)
            return
        at = self._place(segment.sequence)
        if segment.flags & FIN:
            self._end = at + len(segment.payload)
        if segment.payload and len(segment.payload) > len(self._later.get(at, b"")):
            self._later[at] = segment.payload
            self._join()

    def _place(self, sequence: int) -> int:
        """Where in the stream that number is: the place closest to its present end, since numbers wrap."""
        assert self.first is not None
        expected = (self.first + 1 + len(self.data)) % _WORD
        return len(self.data) + (sequence - expected + _HALF) % _WORD - _HALF

    def _join(self) -> None:
        for at in sorted(self._later):
            if at > len(self.data):
                return
            self.data += self._later.pop(at)[len(self.data) - at :]


@dataclass(slots=True)
class Connection:
    client: Endpoint
    gateway: Endpoint
    from_client: Direction = field(default_factory=Direction)
    from_gateway: Direction = field(default_factory=Direction)

    @property
    def is_whole(self) -> bool:
        return self.from_client.is_whole and self.from_gateway.is_whole


def connections(packets: Iterable[bytes], ports: Collection[int]) -> list[Connection]:
    """Return the connections to these ports, in the order in which they were opened.

    A client's port may be used again.
    """
    found: list[Connection] = []
    current: dict[tuple[Endpoint, Endpoint], Connection] = {}
    for segment in map(parse, packets):
        is_clients = segment.target[1] in ports
        ends = (segment.source, segment.target) if is_clients else (segment.target, segment.source)
        connection = current.get(ends)
        opens = is_clients and segment.flags & (SYN | ACK) == SYN
        if connection is None or (opens and connection.from_client.first not in (None, segment.sequence)):
            connection = current[ends] = Connection(*ends)
            found.append(connection)
        (connection.from_client if is_clients else connection.from_gateway).add(segment)
    return found

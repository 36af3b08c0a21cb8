"""Ends sessions of a ZooKeeper server from outside, as if they had timed out."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

_SUPER_SECRET = 0xB3415C00
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1
_WAIT_S = 30
_TIMEOUT_MS = 10_000
_HIGHEST_ZXID_SEEN = 0
_CLOSE_SESSION = -11


def password(session_id: int) -> bytes:
    """Return a session's password: java.util.Random seeded with the id (ZooKeeperServer.generatePasswd)."""
    seed = ((session_id ^ _SUPER_SECRET) ^ _MULTIPLIER) & _MASK
    numbers = []
    for _ in range(4):
        seed = (seed * _MULTIPLIER + _INCREMENT) & _MASK
        numbers.append(seed >> 16)
    return struct.pack("<4I", *numbers)


def end_sessions(hosts: str, session_ids: Iterable[int]) -> int:
    """Close those of the sessions that exist; their clients see them expire. Returns the number closed."""
    return sum(_end(hosts, session_id) for session_id in session_ids)


def _end(hosts: str, session_id: int) -> bool:
    host, _, port = hosts.rpartition(":")
    connect = struct.pack("!iqiqi16s?", 0, _HIGHEST_ZXID_SEEN, _TIMEOUT_MS, session_id, 16, password(session_id), False)
    with socket.create_connection((host, int(port)), timeout=_WAIT_S) as server, server.makefile("rb") as responses:
        server.sendall(struct.pack("!i", len(connect)) + connect)
        length = responses.read(4)
        if len(length) < 4:
            return False
        _, timeout_ms = struct.unpack("!ii", responses.read(struct.unpack("!i", length)[0])[:8])
        if timeout_ms <= 0:
            return False
        server.sendall(struct.pack("!iii", 8, 1, _CLOSE_SESSION))
        responses.read()  # the server closes the connection when the session has ended
        return True

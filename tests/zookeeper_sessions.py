"""Sessions of a ZooKeeper server, ended from outside, as if they had timed out."""

from __future__ import annotations

import contextlib
import logging
import struct
from collections.abc import Iterable

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

_SUPER_SECRET = 0xB3415C00
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1


def password(session_id: int) -> bytes:
    """What the server gives with a session: java.util.Random of its id (ZooKeeperServer.generatePasswd)."""
    seed = ((session_id ^ _SUPER_SECRET) ^ _MULTIPLIER) & _MASK
    numbers = []
    for _ in range(4):
        seed = (seed * _MULTIPLIER + _INCREMENT) & _MASK
        numbers.append(seed >> 16)
    return struct.pack("<4I", *numbers)


def end_sessions(hosts: str, session_ids: Iterable[int]) -> None:
    """Close those of the sessions that there are; whoever has one hears that it expired."""
    quiet = logging.getLogger("kazoo.quiet")
    for session_id in session_ids:
        other = KazooClient(hosts, client_id=(session_id, password(session_id)), logger=quiet)
        with contextlib.suppress(KazooException, KazooTimeoutError):
            other.start()
            other.stop()
        other.close()

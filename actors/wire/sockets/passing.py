"""Packets of JSON between a gateway and the holder of its listening sockets, which come with them (SCM_RIGHTS)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Sequence
from typing import Any

MAX_PACKET_BYTES = 1 << 16
_MAX_SOCKETS = 128
"""In one packet; Linux allows 253."""
HOLDER, GATEWAY = b"holder", b"gateway"
"""Who proves to know the secret."""

Held = tuple[str, socket.socket]
"""A listening socket under the key that its gateway knows it by."""


class Closed(OSError):
    """The other side has closed the connection."""


def send(connection: socket.socket, message: dict[str, Any], sockets: Sequence[socket.socket] = ()) -> None:
    socket.send_fds(connection, [json.dumps(message).encode()], [each.fileno() for each in sockets])


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[Held]]:
    """Return a message, and the sockets that it names under ``hold``.

    Raises OSError if the connection is closed, ValueError.
    """
    data, files, _, _ = socket.recv_fds(connection, MAX_PACKET_BYTES, _MAX_SOCKETS)
    sockets = [socket.socket(fileno=file) for file in files]
    try:
        if not data:
            raise Closed("closed by the other side")
        message = json.loads(data)
        keys = message.get("hold", [])
        if len(keys) != len(sockets):
            raise ValueError(f"{len(sockets)} sockets for {len(keys)} keys")
    except BaseException:
        close_all(sockets)
        raise
    for each in sockets:
        each.setblocking(False)
        each.set_inheritable(False)  # what comes with a message is; a program that is started must not keep it open
    return message, list(zip(keys, sockets, strict=True))


def close_all(sockets: Iterable[socket.socket]) -> None:
    for each in sockets:
        each.close()

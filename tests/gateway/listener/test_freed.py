"""Connections are freed when they are closed, without the garbage collector, which would hold up all others."""

from __future__ import annotations

import gc
import weakref

import pytest

from muster.actors.wire import codec
from tests.gateway.serving import Client, Serving
from tests.zookeeper_fixture import eventually

METADATA, OFFSET_COMMIT, CREATE_TOPICS = 3, 8, 19
CUT = 3
"""Bytes that are left of a body, with lengths that say more."""


@pytest.mark.parametrize(("api_key", "version"), [(METADATA, 12), (OFFSET_COMMIT, 8), (CREATE_TOPICS, 7)])
def test_a_refused_request_keeps_no_connection(full: Serving, api_key: int, version: int) -> None:
    """Its error has the frames of the functions that it passed, and they have the request and its connection."""
    frame = codec.encode_request(18, 0, 1, "freed", {})
    gc.disable()
    try:
        with Client(full.port, "freed") as client:
            client.send(frame)
            client.receive()
            (connection,) = (
                weakref.ref(each) for each in full.gateway.connections.values() if each.port == client.port
            )
            client.send(
                b"".join((api_key.to_bytes(2, "big"), version.to_bytes(2, "big"), b"\0\0\0\1\0\1x\0", CUT * b"\xff"))
            )
            assert client.is_closed()
        eventually(lambda: connection() is None, "it is freed")
    finally:
        gc.enable()

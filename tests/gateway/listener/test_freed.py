"""Connections are freed when they are closed, without the garbage collector, which would hold up all others."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from muster.actors.wire.kafka import codec
from tests.gateway.apis.test_data_apis import PRODUCE, fetch_body, produce_body
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.serving import Client, Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

FETCH, METADATA, OFFSET_COMMIT, CREATE_TOPICS = 1, 3, 8, 19
CUT = 3
"""Bytes that are left of a body, with lengths that say more."""


@pytest.mark.parametrize(("api_key", "version"), [(METADATA, 12), (OFFSET_COMMIT, 8), (CREATE_TOPICS, 7)])
def test_a_refused_request_keeps_no_connection(full: Serving, api_key: int, version: int) -> None:
    """Its error has the frames of the functions that it passed, and they have the request and its connection."""
    header = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\0\1x\0"
    with _freed(full) as client:
        client.send(header + CUT * b"\xff")
        assert client.is_closed()


@pytest.mark.parametrize("session_id", [0, 7])
def test_a_fetch_keeps_no_connection(full: Serving, fresh: Fresh, session_id: int) -> None:
    """State of a Fetch while it is served refers to its request; a session that does not exist is an error."""
    topic = full.create(fresh("t"), 1)
    with _freed(full) as client:
        body = {**fetch_body((topic, 0, 0)), "session_id": session_id, "session_epoch": session_id}
        client.exchange(FETCH, 12, body)


def test_a_fetch_that_waits_keeps_no_connection(full: Serving, fresh: Fresh) -> None:
    """Nor if its client closes the connection meanwhile."""
    topic = full.create(fresh("t"), 1)
    with _freed(full) as client:
        body = fetch_body((topic, 0, 0), max_wait=60_000, min_bytes=1)
        client.send(codec.encode_request(FETCH, 12, 1, "freed", body))


def test_usual_requests_leave_nothing_to_collect(full: Serving, fresh: Fresh) -> None:
    """Produce, Fetch without and with a session, and Heartbeat, of a client that stays connected."""
    topic, requests = full.create(fresh("t"), 1), 50
    find(full.client, 4, group := fresh("g"))
    member = Member(full.client, group, version=4)
    member.join()
    member.sync({member.id: b""})

    def serve() -> None:
        full.client.exchange(PRODUCE, 9, produce_body((topic, 0, client_batch(1))))
        full.client.exchange(FETCH, 12, fetch_body((topic, 0, 0)))
        full.client.exchange(FETCH, 12, fetch_body((topic, 0, 0), session_epoch=0))
        assert not member.heartbeat()

    serve()
    gc.collect()
    gc.disable()
    try:
        for _ in range(requests):
            serve()
        assert gc.collect() < requests
    finally:
        gc.enable()
    member.leave()


@contextmanager
def _freed(full: Serving) -> Iterator[Client]:
    """Yield a client whose connection is freed when it is closed."""
    gc.disable()
    try:
        with Client(full.port, "freed") as client:
            client.send(codec.encode_request(18, 0, 1, "freed", {}))
            client.receive()
            (connection,) = (
                weakref.ref(each) for each in full.gateway.connections.values() if each.port == client.port
            )
            yield client
        eventually(lambda: connection() is None, "it is freed")
    finally:
        gc.enable()

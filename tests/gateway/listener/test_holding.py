"""After what is no request, a connection is held: left open for a while, and not read."""

from __future__ import annotations

import asyncio
import time
from typing import cast

import pytest

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.complaints import Cause, Complaint
from muster.gateway.listener.connection import Connection
from muster.gateway.listener.limiting import holding
from muster.gateway.listener.limiting.holding import Holding
from muster.gateway.listener.proxied import ProxyHeader
from tests.gateway.serving import Client, Serving
from tests.zookeeper_fixture import eventually

API_VERSIONS = 18
BAD = b"\x00\x00\x00\x04\x7f\xff\x00\x00"
"""A frame with an api key that does not exist."""
DELAY_MS = "connection.invalid.request.delay.ms"
FOR_LONG = pytest.mark.parametrize("served", [{DELAY_MS: "60000"}], indirect=True)


def request() -> bytes:
    frame = codec.encode_request(API_VERSIONS, 0, 1, "held", {})
    return len(frame).to_bytes(4, "big") + frame


@FOR_LONG
def test_it_is_not_read_and_what_was_requested_before_is_answered(served: Serving) -> None:
    with served.connect() as client:
        client.send_raw(request() + BAD + request())
        response = codec.decode_response(API_VERSIONS, 0, client.receive())[1]
        assert response.error_code is ErrorCode.none
        eventually(lambda: _is_held(served, client), "it is held")
        client.send_raw(request())
        assert client.has_nothing_for(0.3)
    assert served.client.exchange(API_VERSIONS, 0, {}).error_code is ErrorCode.none


@FOR_LONG
def test_a_gateway_that_stops_does_not_wait_for_it(served: Serving) -> None:
    with served.connect() as client:
        client.send_raw(BAD)
        eventually(lambda: _is_held(served, client), "it is held")
        served.run(served.gateway.end_connections(Complaint(Cause.GATEWAY_STOPS, "it stops")))
        assert client.is_closed()


@FOR_LONG
def test_a_bounded_number_is_held(served: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "MAX_HELD", 1)
    with served.connect() as held, served.connect() as other:
        held.send_raw(BAD)
        eventually(lambda: _is_held(served, held), "it is held")
        other.send_raw(BAD)
        assert other.is_closed()
        assert held.has_nothing_for(0)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("served", [{DELAY_MS: "300"}], indirect=True)
def test_it_is_closed_after_the_delay_and_others_are_held_again(
    served: Serving, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """Also if the first client closes it meanwhile."""
    monkeypatch.setattr(holding, "MAX_HELD", 1)
    with served.connect() as client:
        client.exchange(API_VERSIONS, 0, {})
        port = client.port
        client.send_raw(BAD)
        if waits:
            assert client.is_closed()
    eventually(lambda: port not in [each.port for each in served.gateway.connections.values()], "it is closed")
    with served.connect() as client:
        began_s = time.monotonic()
        client.send_raw(BAD)
        assert client.is_closed()
        assert time.monotonic() - began_s >= 0.149  # at least half of it


def test_those_that_are_refused_together_are_not_closed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    delays_s: list[float] = []

    async def hold() -> None:
        loop, held = asyncio.get_running_loop(), Holding(200)
        monkeypatch.setattr(loop, "call_later", lambda delay_s, *_: delays_s.append(delay_s))
        for _ in range(100):
            assert held.begin(Cause.UNREADABLE, lambda: None)

    asyncio.run(hold())
    assert 0.1 <= min(delays_s) < 0.15 < 0.25 < max(delays_s) <= 0.3


@pytest.mark.parametrize("served", [{DELAY_MS: "60000", "proxy.protocol.enable": "true"}], indirect=True)
def test_nothing_is_kept_of_what_is_no_header_of_a_balancer(served: Serving) -> None:
    with served.connect() as client:
        client.send_raw(b"x" * 100_000)
        eventually(lambda: _is_held(served, client), "it is held")
        connections = [*served.gateway.connections.values()]
        (found,) = (each for each in connections if isinstance(each, Connection) and each.port == client.port)
        room = cast(asyncio.Transport, found._transport).get_protocol()
        assert isinstance(room, ProxyHeader)
        assert room._data == b""


def _is_held(served: Serving, client: Client) -> bool:
    connections = [*served.gateway.connections.values()]  # the gateway's thread changes them
    return any(isinstance(each, Connection) and each.port == client.port and each.is_held for each in connections)

"""How many clients may connect, and how fast: what those that may not see, and that the others are served."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from muster.actors.config.parts.quota_properties import parse_overrides
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.quotas.connections import (
    ConnectionLimits,
    Connections,
    ListenerLimits,
    Refusal,
    Refused,
)
from muster.gateway.quotas.rate import Window
from muster.placement.security.entities import Entity
from tests.gateway.quotas.requests import limit
from tests.gateway.serving import Client, Serving
from tests.zookeeper_fixture import eventually

API_VERSIONS = 18
WINDOW = Window(11, 1_000)
NO_OWN = ListenerLimits()


def works(client: Client) -> bool:
    return client.exchange(API_VERSIONS, 0, {}).error_code is ErrorCode.none


def test_a_rate_delays_those_that_come_later() -> None:
    found = Connections(WINDOW)
    found.limits = ConnectionLimits(creation_rate=1)
    assert [found.accepted("L", NO_OWN, 0) for _ in range(10)] == [0] * 10
    assert found.accepted("L", NO_OWN, 0) == 1_000
    assert found.accepted("L", NO_OWN, 1_000) == 1_000
    assert found.delayed_ms == 2_000


def test_a_listener_has_a_rate_and_a_number_of_its_own() -> None:
    found, own = Connections(WINDOW), ListenerLimits(max_connections=11, creation_rate=1)
    for _ in range(10):
        assert found.accepted("L", own, 0) == 0
        assert found.accepted("M", NO_OWN, 0) == 0
    assert not found.is_full("L", own)
    assert found.accepted("L", own, 0) == 1_000
    assert (found.is_full("L", own), found.is_full("M", NO_OWN)) == (True, False)
    found.closed("L")
    assert not found.is_full("L", own)


def test_the_quota_of_an_address_counts_only_those_that_are_admitted() -> None:
    found = Connections(WINDOW)
    found.limits = ConnectionLimits(ip_rates={None: 1.0, "10.0.0.2": 100.0})
    assert [found.comes_from("10.0.0.1", 0) for _ in range(12)] == [None] * 10 + [Refused(Refusal.TOO_FAST, 1_000)] * 2
    assert [found.comes_from("10.0.0.2", 0) for _ in range(12)] == [None] * 12
    assert found.comes_from("10.0.0.1", 11_000) is None
    assert found.refused[Refusal.TOO_FAST] == 2


def test_overrides_have_the_addresses_of_connections() -> None:
    text = "10.0.0.1:1, [2001:DB8:0:0::1]:2,::ffff:10.0.0.3:3"
    assert parse_overrides(text) == {"10.0.0.1": 1, "2001:db8::1": 2, "10.0.0.3": 3}


def test_an_override_applies_to_its_address() -> None:
    found = Connections(WINDOW)
    found.limits = ConnectionLimits(per_ip=1, per_ip_overrides={"10.0.0.2": 2, "10.0.0.3": 0})
    assert [found.comes_from(ip, 0) is None for ip in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2")] == [
        True,
        False,
        True,
        True,
        False,
    ]
    assert found.comes_from("10.0.0.3", 0) == Refused(Refusal.TOO_MANY)
    found.left("10.0.0.1")
    assert found.comes_from("10.0.0.1", 0) is None


@contextmanager
def raw(served: Serving) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", served.port), 10) as connected:
        connected.settimeout(30)
        yield connected


def ended(connected: socket.socket) -> bool:
    """Wait for the end of the connection."""
    try:
        return connected.recv(1) == b""
    except ConnectionError:
        return True


def closed_for(served: Serving, reason: str) -> int:
    line = f'muster_connections_closed_total{{gateway="1",reason="{reason}"}} '
    found = [text for text in served.http("/metrics")[1].splitlines() if text.startswith(line)]
    return int(float(found[0].removeprefix(line))) if found else 0


@pytest.mark.parametrize("served", [{"max.connections": "2"}], indirect=True)
def test_those_beyond_max_connections_wait_until_one_is_closed(served: Serving) -> None:
    assert works(served.client)
    with ExitStack() as stack:
        second = stack.enter_context(served.connect())
        assert works(second)
        third = stack.enter_context(served.connect())
        third.request(API_VERSIONS, 0, {})
        for _ in range(20):
            assert works(second)
        assert len(served.gateway.connections) == 2
        assert third.has_nothing_for(0)
        second.close()
        assert third.response(API_VERSIONS, 0).error_code is ErrorCode.none


@pytest.mark.parametrize("served", [{"max.connections.per.ip": "2"}], indirect=True)
def test_those_beyond_the_limit_of_their_address_are_closed_at_once(served: Serving) -> None:
    assert works(served.client)
    with served.connect() as second:
        assert works(second)
        with raw(served) as third:
            assert ended(third)
        assert works(second)
        assert closed_for(served, "max_connections_per_ip") == 1
    eventually(lambda: len(served.gateway.connections) == 1, "the end of the second")
    with served.connect() as third_client:
        assert works(third_client)


def test_those_that_come_too_fast_are_held_unread_and_closed(served: Serving) -> None:
    limit(served, Entity.of_ip("127.0.0.1"), connection_creation_rate=1.0)
    with ExitStack() as stack:
        clients = [stack.enter_context(served.connect()) for _ in range(10)]
        held = [stack.enter_context(served.connect()) for _ in range(2)]
        for each in held:
            each.request(API_VERSIONS, 0, {})
        assert all(works(each) for each in clients)
        assert all(each.has_nothing_for(0) for each in held)
        assert all(each.is_closed() for each in held)
        assert closed_for(served, "connection_rate") == 2
        assert all(works(each) for each in clients)


@pytest.mark.parametrize("served", [{"max.connection.creation.rate": "1"}], indirect=True)
def test_a_gateway_accepts_no_faster_than_its_rate(served: Serving) -> None:
    assert works(served.client)
    with ExitStack() as stack:
        first = [stack.enter_context(served.connect()) for _ in range(10)]
        assert all(works(each) for each in first)
        late = stack.enter_context(served.connect())
        late.request(API_VERSIONS, 0, {})
        assert served.gateway.accepted.delayed_ms > 0
        assert works(first[0])
        assert late.response(API_VERSIONS, 0).error_code is ErrorCode.none


LISTENERS = {"listeners": "A://:0,B://:0", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}


@pytest.mark.parametrize("served", [{**LISTENERS, "listener.name.b.max.connections": "1"}], indirect=True)
def test_a_full_listener_does_not_close_another(served: Serving) -> None:
    port = served.listen("B")
    with Client(port) as first, Client(port) as waits:
        assert works(first)
        waits.request(API_VERSIONS, 0, {})
        with served.connect() as other:
            assert works(other)
        assert waits.has_nothing_for(0)
        first.close()
        assert waits.response(API_VERSIONS, 0).error_code is ErrorCode.none


PROXY = {"proxy.protocol.enable": "true", "max.connections.per.ip": "1"}


@pytest.mark.parametrize("served", [PROXY], indirect=True)
def test_behind_a_balancer_the_address_is_the_clients(served: Serving) -> None:
    def header(address: str) -> bytes:
        ends = socket.inet_aton(address) + socket.inet_aton("10.9.9.9") + b"\0\1\0\2"
        return b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + len(ends).to_bytes(2, "big") + ends

    def connect(stack: ExitStack, address: str) -> Client:
        client = stack.enter_context(served.connect())
        client.send_raw(header(address))
        return client

    with ExitStack() as stack:
        assert works(connect(stack, "10.0.0.1"))
        assert works(connect(stack, "10.0.0.2"))
        assert connect(stack, "10.0.0.1").is_closed()


def test_clients_are_served_during_a_storm_of_connections(served: Serving) -> None:
    """Connections are accepted in turns with the requests of the clients that are there."""

    def turns() -> int:
        return int(served.gateway.metrics._connections_opened)

    with ExitStack() as stack:
        storm: list[Any] = []
        assert works(served.client)
        before = turns()
        for _ in range(300):
            storm.append(stack.enter_context(raw(served)))
        assert works(served.client)
        eventually(lambda: turns() - before == 300, "all connections")
    eventually(lambda: len(served.gateway.connections) == 1, "the end of the storm")


@pytest.mark.parametrize("served", [{"metrics.max.connections": "2"}], indirect=True)
def test_the_http_port_has_a_limit(served: Serving) -> None:
    port = int(served.http_url.rpartition(":")[2])
    with ExitStack() as stack:
        first = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(2)]
        for each in first:
            each.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
            assert each.recv(12) == b"HTTP/1.1 200"
        third = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        third.settimeout(30)
        assert ended(third)
    eventually(lambda: served.http("/healthz")[0] == 200, "room")

"""Sessions with a lifetime (KIP-368): clients that authenticate again, those that do not, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.security.credentials import write
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from muster.placement.security.entities import Entity
from muster.placement.view import Broker, BrokerAddress
from tests.gateway.apis.test_data_apis import FETCH, PRODUCE, fetch_body, produce_body
from tests.gateway.quotas.requests import limit
from tests.gateway.sasl_login import (
    API_VERSIONS,
    AUTHENTICATE,
    HANDSHAKE,
    METADATA,
    NO_TOPICS,
    authenticate,
    by_plain,
    by_scram,
    handshake,
    plain,
    works,
)
from tests.gateway.serving import Client, Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

Fresh = Callable[[str], str]
PASSWORD = "secret"
LIFETIME_S = 10
SHORT_S = 1.5
"""Clients may not authenticate again more than once a second; librdkafka does after 90 % of the lifetime."""
OTHER_MECHANISM = (
    "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
)


def PROPERTIES(storage: Path) -> dict[str, str]:
    held = {mechanism: ScramCredential.of_password(mechanism, PASSWORD) for mechanism in SCRAM_MECHANISMS}
    write(storage / "users.properties", {"ann": held, "eve": held})
    names = ("MAIN", "OTHER", "SHORT")
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": ",".join(f"{name}:SASL_PLAINTEXT" for name in names),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.credentials.file": str(storage / "users.properties"),
        "connections.max.reauth.ms": str(LIFETIME_S * 1000),
        "connection.failed.authentication.delay.ms": "0",
        "listener.name.other.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "listener.name.other.connections.max.reauth.ms": "5000",
        "listener.name.other.plain.connections.max.reauth.ms": "0",
        "listener.name.short.connections.max.reauth.ms": str(int(SHORT_S * 1000)),
    }


class Clock:
    """Time, in s, that passes when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(full: Serving, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of the sessions of connections that the test opens."""
    own = Clock()
    monkeypatch.setattr(full.gateway.sasl, "now_s", own)
    return own


@pytest.fixture
def client(full: Serving, clock: Clock) -> Iterator[Client]:
    """Yield a client that is logged in as ann."""
    with full.connect() as connected:
        assert by_plain(connected, "ann", PASSWORD).session_lifetime == LIFETIME_S * 1_000
        yield connected


@pytest.fixture
def count(full: Serving) -> Callable[[str], int]:
    """How often that has happened since the test began, on the first listener."""
    assert full.gateway.sasl is not None
    totals = full.gateway.sasl.counts.totals
    before = totals.copy()

    def since(name: str, listener: str = "MAIN") -> int:
        key = (f"muster_{name}_total", listener)
        return totals[key] - before[key]

    return since


@pytest.mark.parametrize("api_key", [METADATA, API_VERSIONS, AUTHENTICATE])
def test_a_session_that_is_over_ends_with_the_next_request(
    client: Client, clock: Clock, count: Callable[[str], int], api_key: int
) -> None:
    clock.now_s += LIFETIME_S
    assert works(client)
    clock.now_s += 0.001
    body = {METADATA: NO_TOPICS, API_VERSIONS: {}, AUTHENTICATE: {"auth_bytes": b""}}[api_key]
    client.request(api_key, 0 if api_key != METADATA else 4, body)
    assert client.is_closed()
    assert count("expired_connections_killed") == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM_MECHANISMS])
def test_a_client_that_authenticates_again_stays(
    full: Serving, clock: Clock, count: Callable[[str], int], mechanism: str
) -> None:
    def log_in(client: Client, version: int) -> Any:
        if mechanism == "PLAIN":
            handshake(client, mechanism)
            return authenticate(client, plain("ann", PASSWORD), version)
        return by_scram(client, mechanism, "ann", PASSWORD, version)

    with full.connect() as client:
        for version in (1, 2, 1):
            assert log_in(client, version).session_lifetime == LIFETIME_S * 1_000
            clock.now_s += LIFETIME_S - 1
            assert works(client)
        clock.now_s += 2
        assert not log_in(client, 2).error_code, "a handshake is served after the end, too"
        assert works(client)
        (connection,) = [each for each in full.gateway.connections.values() if each.port == client.port]
        assert connection.principal == "User:ann"
    assert count("successful_authentications") == 1
    assert count("successful_reauthentications") == 3
    assert not count("expired_connections_killed")


def test_a_client_may_not_begin_again_within_a_second(client: Client, clock: Clock) -> None:
    clock.now_s += 0.1
    assert not by_plain(client, "ann", PASSWORD).error_code, "the login itself does not count, as in Kafka"
    clock.now_s += 0.999
    assert handshake(client, "PLAIN").error_code is ErrorCode.illegal_sasl_state
    assert works(client)
    clock.now_s += 0.001
    assert not by_plain(client, "ann", PASSWORD).error_code
    assert works(client)


REFUSED: dict[str, tuple[str, bytes, str]] = {
    "another mechanism": ("SCRAM-SHA-256", b"n,,n=ann,r=abcdef", OTHER_MECHANISM),
    "another user": (
        "PLAIN",
        plain("eve", PASSWORD),
        "Cannot change principals during re-authentication from User.ann: User.eve",
    ),
    "a wrong password": ("PLAIN", plain("ann", "wrong"), "Authentication failed: Invalid username or password"),
    "nothing": (
        "PLAIN",
        b"",
        "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN",
    ),
}


@pytest.mark.parametrize(("mechanism", "token", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_when_authenticating_again_ends_the_connection(
    client: Client, count: Callable[[str], int], mechanism: str, token: bytes, says: str
) -> None:
    assert handshake(client, mechanism).error_code is ErrorCode.none
    response = authenticate(client, token)
    assert (response.error_code, response.error_message) == (ErrorCode.sasl_authentication_failed, says)
    assert client.is_closed()
    assert count("failed_reauthentications") == 1
    assert not count("failed_authentications")


def test_a_mechanism_that_is_not_enabled_ends_the_connection(
    full: Serving, client: Client, count: Callable[[str], int]
) -> None:
    shaken = handshake(client, "GSSAPI")
    assert shaken.error_code is ErrorCode.unsupported_sasl_mechanism
    assert shaken.mechanisms == ("PLAIN", *SCRAM_MECHANISMS)
    assert client.is_closed()
    assert count("failed_reauthentications") == 1
    with full.connect() as other:
        handshake(other, "GSSAPI")
    assert count("failed_authentications") == 1


def test_other_requests_are_not_served_in_between(client: Client) -> None:
    handshake(client, "PLAIN")
    client.request(METADATA, 4, NO_TOPICS)
    assert client.is_closed()


def test_requests_in_flight_are_answered(full: Serving, client: Client, clock: Clock, fresh: Fresh) -> None:
    topic = full.create(fresh("t"))
    waits = fetch_body((topic, 0, 0), max_wait=500, min_bytes=1)
    client.request(FETCH, 12, waits)
    client.request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    client.request(AUTHENTICATE, 1, {"auth_bytes": plain("ann", PASSWORD)})
    client.request(METADATA, 4, NO_TOPICS)
    assert client.response(FETCH, 12).error_code is ErrorCode.none
    assert client.response(HANDSHAKE, 1).error_code is ErrorCode.none
    assert client.response(AUTHENTICATE, 1).error_code is ErrorCode.none
    assert client.response(METADATA, 4).cluster_id


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_token_ahead_of_its_handshake_is_refused(client: Client, version: int) -> None:
    """It came while the client was authenticated, and is looked at when it begins to authenticate again."""
    sent = bytearray()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "send_raw", sent.extend)
        client.request(AUTHENTICATE, version, {"auth_bytes": plain("ann", PASSWORD)})
        client.request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    client.send_raw(bytes(sent))
    assert client.response(AUTHENTICATE, version).error_code is ErrorCode.illegal_sasl_state
    assert client.response(HANDSHAKE, 1).error_code is ErrorCode.none
    assert authenticate(client, plain("ann", PASSWORD)).error_code is ErrorCode.none
    assert works(client)


def test_requests_in_flight_are_charged(full: Serving, client: Client, fresh: Fresh) -> None:
    topic, sent = full.create(fresh("t")), bytearray()
    limit(full, Entity.of_user("ann"), producer_byte_rate=1)
    client.send_raw, send = sent.extend, client.send_raw  # type: ignore[assignment]
    client.request(PRODUCE, 13, produce_body((topic, 0, client_batch(1))))
    client.request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    send(bytes(sent))
    assert client.response(PRODUCE, 13).throttle_time > 0
    assert client.response(HANDSHAKE, 1).error_code is ErrorCode.none
    limit(full, Entity.of_user("ann"), producer_byte_rate=0)


def test_a_request_that_outlives_the_session_is_answered(
    full: Serving, client: Client, clock: Clock, fresh: Fresh
) -> None:
    topic = full.create(fresh("t"))
    client.request(FETCH, 12, fetch_body((topic, 0, 0), max_wait=500, min_bytes=1))
    (connection,) = [each for each in full.gateway.connections.values() if each.port == client.port]
    eventually(lambda: connection.waiting, "the Fetch waits for records")
    clock.now_s += LIFETIME_S + 1
    client.request(METADATA, 4, NO_TOPICS)
    assert client.response(FETCH, 12).error_code is ErrorCode.none
    assert client.is_closed()


def _bare(client: Client) -> None:
    handshake(client, "PLAIN", version=0)
    client.send(plain("ann", PASSWORD))
    assert client.receive() == b""


def _without_lifetime(client: Client) -> None:
    handshake(client, "PLAIN")
    assert not authenticate(client, plain("ann", PASSWORD), version=0).error_code


@pytest.mark.parametrize("log_in", [_bare, _without_lifetime])
def test_clients_that_cannot_know_of_the_lifetime_are_cut_off_and_counted(
    full: Serving, clock: Clock, count: Callable[[str], int], log_in: Callable[[Client], None]
) -> None:
    with full.connect() as client:
        log_in(client)
        assert works(client)
        assert count("successful_authentications_no_reauth") == 1
        clock.now_s += LIFETIME_S + 1
        client.request(METADATA, 4, NO_TOPICS)
        assert client.is_closed()
    assert count("expired_connections_killed") == 1


def test_a_listener_has_its_own_mechanisms_and_lifetimes(full: Serving, clock: Clock) -> None:
    port = full.listen("OTHER")
    with Client(port) as client:
        shaken = handshake(client, "SCRAM-SHA-256")
        assert shaken.error_code is ErrorCode.unsupported_sasl_mechanism
        assert shaken.mechanisms == ("SCRAM-SHA-512", "PLAIN")
    with Client(port) as client:
        assert by_scram(client, "SCRAM-SHA-512", "ann", PASSWORD).session_lifetime == 5_000
        clock.now_s += 6
        client.request(METADATA, 4, NO_TOPICS)
        assert client.is_closed()
    with Client(port) as client:
        assert not by_plain(client, "ann", PASSWORD).session_lifetime
        clock.now_s += 1e6
        assert works(client)
        assert handshake(client, "PLAIN").error_code is ErrorCode.illegal_sasl_state
        assert works(client)


def test_librdkafka_authenticates_again(full: Serving, count: Callable[[str, str], int], fresh: Fresh) -> None:
    topic = full.create(fresh("t")).name
    port, before = full.listen("SHORT"), full.controller.brokers
    further = (BrokerAddress("SHORT", "127.0.0.1", port),)
    full.controller.brokers = (Broker(id=1, host="127.0.0.1", port=full.port, node_id="n1", further=further),)
    full.follow(full.controller.view())
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "ann",
            "sasl.password": PASSWORD,
        }
    )
    producer.produce(topic, b"before")
    assert producer.flush(20) == 0
    used = {name for name, each in full.gateway.connections.items() if each.listener.name == "SHORT"}
    logins = count("successful_authentications", "SHORT")
    eventually(lambda: count("successful_reauthentications", "SHORT") >= 2 * logins, "each connection did, twice")
    producer.produce(topic, b"after")
    assert producer.flush(20) == 0
    assert used == {name for name, each in full.gateway.connections.items() if each.listener.name == "SHORT"}
    assert not count("expired_connections_killed", "SHORT")
    assert not count("failed_reauthentications", "SHORT")
    producer.close()
    full.controller.brokers = before
    full.follow(full.controller.view())

"""Identity on a real listener, behind a balancer that reports the client's address, and with SASL: F6, F22 and F23."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.proxy_protocol import Source, write_header
from muster.gateway.security.credentials import write
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from muster.placement.view import Topic
from tests.attribution.kop.served import join, read, settled
from tests.attribution.kop.served import write as produce
from tests.gateway.group_client import Fresh, find
from tests.gateway.serving import Client, Serving

HANDSHAKE, AUTHENTICATE = 17, 36
USERS = ("tenant-1", "tenant-2", "mallory")
BALANCER = Source("192.0.2.1", 9092)
Connect = Callable[..., Client]


def PROPERTIES(storage: Path) -> dict[str, str]:
    users = storage / "users.properties"
    mechanism = SCRAM_MECHANISMS[0]
    write(users, {user: {mechanism: ScramCredential.of_password(mechanism, user)} for user in USERS})
    return {
        "group.initial.rebalance.delay.ms": "0",
        "proxy.protocol.enable": "true",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.credentials.file": str(users),
        "listeners.unauthenticated.enable": "true",  # who scrapes sees the names
    }


@pytest.fixture
def connect(full: Serving) -> Iterator[Connect]:
    """Yield a function that connects through the balancer, from that address and as that user.

    Every client's id is ``rdkafka``.
    """
    with ExitStack() as opened:

        def connect(user: str = "tenant-1", host: str = "10.0.0.1") -> Client:
            client = opened.enter_context(full.connect("rdkafka"))
            client.send_raw(write_header(Source(host, client.port), BALANCER))
            assert client.exchange(HANDSHAKE, 1, {"mechanism": "PLAIN"}).error_code is ErrorCode.none
            token = f"\0{user}\0{user}".encode()
            assert client.exchange(AUTHENTICATE, 2, {"auth_bytes": token}).error_code is ErrorCode.none
            return client

        yield connect


@pytest.fixture
def topic(full: Serving, fresh: Fresh, connect: Connect) -> Topic:
    """One partition with a record."""
    topic = full.create(fresh("t"))
    produce(connect(), topic)
    return topic


def test_f06_a_balancer_that_sends_the_address_of_its_client(
    full: Serving, topic: Topic, fresh: Fresh, connect: Connect
) -> None:
    """Two pods with one client id and the same partition: only their addresses differ. KoP has the balancer's address
    (``ctx.channel().remoteAddress()``)."""
    first, second = fresh("g"), fresh("g")
    for group, host in ((first, "10.0.0.1"), (second, "10.0.0.2")):
        join(connect(host=host), group, topic.name, [0])
    size = read(connect(host="10.0.0.1"), topic)
    assert settled(full, topic.name, size).groups == {first: size}
    read(connect(host="10.0.0.2"), topic)
    assert settled(full, topic.name, 2 * size).groups == {first: size, second: size}


def test_f22_two_tenants_behind_one_address(full: Serving, topic: Topic, fresh: Fresh, connect: Connect) -> None:
    mine, theirs = fresh("g"), fresh("g")
    join(connect("tenant-1"), mine, topic.name, [0])
    join(connect("tenant-2"), theirs, topic.name, [0])
    size = read(connect("tenant-1"), topic)
    assert settled(full, topic.name, size).groups == {mine: size}


def test_f23_a_stranger_behind_our_address(full: Serving, topic: Topic, fresh: Fresh, connect: Connect) -> None:
    """It looks up Muster's group, and others, and joins one of its own with the same partitions and client id."""
    victims, premium = fresh("g"), fresh("g")
    join(connect("tenant-1"), victims, topic.name, [0])
    find(connect("mallory"), 4, victims, premium)
    join(connect("mallory"), premium, topic.name, [0])
    size = read(connect("tenant-1"), topic)
    assert settled(full, topic.name, size).groups == {victims: size}

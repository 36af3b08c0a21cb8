"""Clients with null, empty, odd and hostile ids, and over IPv6: served, attributed, and in ZooKeeper."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from muster.actors.group.apis.arguments import MAX_NAME_BYTES
from muster.actors.offsets.mapping_writer import MappingWriter
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.mapping.nodes import decode_registration, registration_path
from muster.placement.mapping.registration import Registration
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.gateway.apis.test_data_apis import fetch, produce
from tests.gateway.group_client import Fresh, Member
from tests.gateway.serving import Client, Serving
from tests.log.support import client_batch

PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}
_LONGEST = 32_767
"""Bytes of the longest client id that fits into a request header. A member's must fit into its member id, too."""
ODD = {
    "null": None,
    "empty": "",
    "a slash": "a/b",
    "slashes": "//",
    "a dot": ".",
    "dots": "..",
    "up": "../../brokers/ids/1",
    "control characters": "a\0b\r\n\t\x1b[2J",
    "a label": 'x",group="other"} 1\n#',
    "what an encoding looks like": "%2F%~",
    "not Latin": "клиент-⛄-𐍈",
    "a kop key": "10.0.0.1-other",
    "a colon": "group:member",
    "32 KB": "x" * MAX_NAME_BYTES,
    "32 KB of what is encoded": "/" * MAX_NAME_BYTES,
}


@pytest.fixture(scope="module")
def mapping(full: Serving) -> Iterator[ZooKeeperClient]:
    """ZooKeeper, into which the coordinators' registrations are written from now on."""
    assert full.actors is not None
    zk: ZooKeeperClient = full.controller.registry._zk
    hosts = ",".join(f"{host}:{port}" for host, port in zk.hosts) + zk.chroot
    writer = MappingWriter(hosts)
    full.actors.sink = writer
    for partition in range(3):
        assert full.run(full.gateway.coordinator_ready(partition, 20))
    yield zk
    writer.close(5)


def _written(full: Serving, zk: ZooKeeperClient, registration: Registration) -> Registration:
    assert full.actors is not None
    assert isinstance(full.actors.sink, MappingWriter)
    assert full.actors.sink.flush(20)
    path = registration_path(registration)
    return decode_registration(path, zk.get(path)[0])


def _known(full: Serving, group: str) -> Registration:
    """Return the gateway's registrations. The update came before the client's response, on the same socket."""
    (registration,) = [one for one in full.gateway.account.table if one.group == group]
    return registration


@pytest.mark.parametrize("client_id", ODD.values(), ids=ODD.keys())
def test_a_consumer_with_that_client_id(
    full: Serving, mapping: ZooKeeperClient, fresh: Fresh, client_id: str | None
) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    with full.connect(client_id) as client:
        member = Member(client, group, version=5)
        assert member.join().error_code is ErrorCode.none
        assert member.sync({member.id: b""}).error_code is ErrorCode.none
        registration = _known(full, group)
        assert (registration.client_id, registration.member_id) == (client_id, member.id)
        assert _written(full, mapping, registration) == registration
        (result,) = produce(client, (topic, 0, client_batch(1)))
        assert result.error_code is ErrorCode.none
        assert fetch(client, (topic, 0, 0))[0].records
        assert member.leave().error_code is ErrorCode.none


@pytest.mark.parametrize(
    "group", [group for group in ODD.values() if group], ids=[name for name, group in ODD.items() if group]
)
def test_a_consumer_of_a_group_of_that_name(full: Serving, mapping: ZooKeeperClient, fresh: Fresh, group: str) -> None:
    topic = full.create(fresh("t"))
    with full.connect("c") as client:
        member = Member(client, group, version=8)
        assert [error for _, _, error in member.commit((topic, 0, 5))] == [ErrorCode.none]
        registration = _known(full, group)
        assert (registration.group, registration.partitions) == (group, {(topic.name, 0)})
        assert _written(full, mapping, registration) == registration


def test_a_simple_consumer_with_the_longest_ids(full: Serving, mapping: ZooKeeperClient, fresh: Fresh) -> None:
    topic, client_id, group = full.create(fresh("t")), "ü" * (_LONGEST // 2), "g" * _LONGEST
    with full.connect(client_id) as client:
        assert [error for _, _, error in Member(client, group, version=8).commit((topic, 0, 5))] == [ErrorCode.none]
        registration = _known(full, group)
        assert registration.client_id == client_id
        assert _written(full, mapping, registration) == registration


def test_the_empty_group_id_has_no_members(full: Serving) -> None:
    with full.connect() as client:
        assert Member(client, "", version=5).join().error_code is ErrorCode.invalid_group_id


class NewerClient(Client):
    """Its request headers have a tagged field that is unknown to Muster (KIP-482)."""

    def send(self, frame: bytes) -> None:
        header = codec.decode_header(frame)
        if codec.request_type(header.api_key, header.api_version).__flexible__:
            frame = frame[: header.end - 1] + b"\x01\x5b\x03new" + frame[header.end :]
        super().send(frame)


def test_a_consumer_that_is_newer_than_muster(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"))
    with NewerClient(full.port) as client:
        member = Member(client, fresh("g"), version=9)
        assert member.join().error_code is ErrorCode.none
        assert member.sync({member.id: b""}).error_code is ErrorCode.none
        assert [error for _, _, error in member.commit((topic, 0, 5))] == [ErrorCode.none]
        (result,) = produce(client, (topic, 0, client_batch(1)))
        assert result.error_code is ErrorCode.none
        assert fetch(client, (topic, 0, 0))[0].records


@pytest.mark.parametrize(("bound", "to", "host"), [("::1", "::1", "::1"), ("::", "127.0.0.1", "127.0.0.1")])
def test_ipv6(full: Serving, mapping: ZooKeeperClient, fresh: Fresh, bound: str, to: str, host: str) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    listener = socket.create_server((bound, 0), family=socket.AF_INET6, dualstack_ipv6=bound == "::")
    port = listener.getsockname()[1]

    gateway = full.gateway
    assert full.run(gateway.listen(bound, 0, lambda *_: [listener])) == port
    try:
        with Client(port, host=to) as client:
            member = Member(client, group, version=8)
            assert [error for _, _, error in member.commit((topic, 0, 5))] == [ErrorCode.none]
        registration = _known(full, group)
        assert registration.host == host
        assert _written(full, mapping, registration) == registration
    finally:

        async def close() -> None:
            gateway._acceptors[-1].close()

        full.run(close())
        gateway._acceptors = gateway._acceptors[:-1]

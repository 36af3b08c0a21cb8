"""Heartbeats that the gateway answers with a lease of the coordinator: a real coordinator behind a real socket."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator

import pytest

from muster.actors.group.types import GroupId
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.connection import Connection
from muster.placement.lease import LEASE_MS
from muster.placement.security.entities import Entity
from pytest_muster import FaultClient
from tests.gateway.fault_client import PROPERTIES as FAULT_PROPERTIES
from tests.gateway.group_client import HEARTBEAT, Fresh, Member, find
from tests.gateway.quotas.requests import limit
from tests.gateway.serving import Serving
from tests.zookeeper_fixture import eventually

PROPERTIES = {
    **FAULT_PROPERTIES,
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
}
NONE = ErrorCode.none


class Coordinator:
    """Counts the heartbeats that reach a coordinator; may be paused."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heartbeats = 0
        request = OffsetsPartition.request

        def counted(partition: OffsetsPartition, *arguments: object) -> None:
            self.heartbeats += codec.decode_header(arguments[-1]).api_key == HEARTBEAT  # type: ignore[arg-type]
            request(partition, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(OffsetsPartition, "request", counted)


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    return Coordinator(monkeypatch)


@pytest.fixture
def faults(full: Serving) -> Iterator[FaultClient]:
    client = FaultClient(full.http_url)
    yield client
    client.clear()


def stable(full: Serving, group: str, **changes: int) -> Member:
    """Return the only member of a group."""
    client = full.connect()
    find(client, 4, group)
    member = Member(client, group)
    member.join(**changes)
    assert member.sync({member.id: b"all"}).error_code is NONE
    return member


def leased(member: Member, coordinator: Coordinator) -> None:
    """Wait until the gateway answers the member's heartbeats."""

    def is_answered() -> bool:
        before = coordinator.heartbeats
        assert member.heartbeat() is NONE
        return coordinator.heartbeats == before

    eventually(is_answered, "a heartbeat that the gateway answers")


def test_only_the_first_heartbeat_reaches_the_coordinator(
    full: Serving, fresh: Fresh, coordinator: Coordinator
) -> None:
    member = stable(full, fresh("g"))
    leased(member, coordinator)
    before = coordinator.heartbeats
    assert {member.heartbeat() for _ in range(50)} == {NONE}
    assert coordinator.heartbeats == before


def test_pipelined_heartbeats_are_answered_in_order(full: Serving, fresh: Fresh, coordinator: Coordinator) -> None:
    member = stable(full, fresh("g"))
    leased(member, coordinator)
    body = {"group_id": member.group, **member._me()}
    for number in range(100):
        member.client.send(codec.encode_request(HEARTBEAT, 4, number, "a client", body))
    for number in range(100):
        correlation_id, response = codec.decode_response(HEARTBEAT, 4, member.client.receive())
        assert (correlation_id, response.error_code) == (number, NONE)


def test_no_more_is_kept_of_a_client_than_of_an_honest_one(
    full: Serving, fresh: Fresh, coordinator: Coordinator
) -> None:
    """A client may send what is ignored (KIP-482), and a different one with each heartbeat."""
    member = stable(full, fresh("g"))
    body = {"group_id": member.group, **member._me()}
    for number in range(5):
        frame = codec.encode_request(HEARTBEAT, 4, number, "a client", body)
        tagged = b"\x01\x63\x80\x20" + bytes([number]) * 4096  # one field, its tag, its size
        member.client.send(frame[:-1] + tagged)
        assert codec.decode_response(HEARTBEAT, 4, member.client.receive())[1].error_code is NONE
    (connection,) = (each for each in full.gateway.connections.values() if each.port == member.client.port)
    assert not connection.leases.prepared
    assert coordinator.heartbeats == 5


def test_a_rebalance_is_reported_by_the_very_next_heartbeat(
    full: Serving, fresh: Fresh, coordinator: Coordinator
) -> None:
    member = stable(full, fresh("g"))
    leased(member, coordinator)
    other = Member(full.connect(), member.group)
    other.request_join()
    if other.joined().error_code is ErrorCode.member_id_required:
        assert member.heartbeat() is NONE
        other.request_join()
    eventually(lambda: member.heartbeat() is not NONE, "the end of the lease")
    assert member.heartbeat() is ErrorCode.rebalance_in_progress


def test_other_members_and_generations_have_no_part_in_it(
    full: Serving, fresh: Fresh, coordinator: Coordinator
) -> None:
    member = stable(full, fresh("g"))
    leased(member, coordinator)
    stranger = Member(member.client, member.group)
    stranger.id, stranger.generation = "somebody", member.generation
    assert stranger.heartbeat() is ErrorCode.unknown_member_id
    old = Member(member.client, member.group)
    old.id, old.generation = member.id, member.generation - 1
    assert old.heartbeat() is ErrorCode.illegal_generation
    assert member.heartbeat() is NONE


def test_a_member_that_is_only_seen_by_the_gateway_stays(full: Serving, fresh: Fresh, coordinator: Coordinator) -> None:
    member = stable(full, fresh("g"), session_timeout_ms=3_000)
    leased(member, coordinator)
    before = coordinator.heartbeats
    until_s = time.monotonic() + 5
    while time.monotonic() < until_s:
        assert member.heartbeat() is NONE
    assert coordinator.heartbeats - before <= 2, "its lease may end with its session, and then begins anew"


def test_a_member_that_is_silent_expires(full: Serving, fresh: Fresh, coordinator: Coordinator) -> None:
    member = stable(full, fresh("g"), session_timeout_ms=3_000)
    leased(member, coordinator)
    assert full.actors is not None
    groups = full.actors.offsets[full.gateway.partition_of(member.group)].coordinator.groups
    eventually(lambda: not groups[GroupId(member.group)].members, "the end of the session")
    assert member.heartbeat() is ErrorCode.unknown_member_id


def test_a_lease_ends_with_its_time_if_the_coordinator_is_silent(
    full: Serving, fresh: Fresh, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator seems paused: pings have no response, so the gateway forwards again."""
    member = stable(full, fresh("g"))
    leased(member, coordinator)
    channel = full.gateway.forwarder.offsets(full.gateway.partition_of(member.group))
    assert channel is not None
    monkeypatch.setattr(channel._leases, "alive", lambda pinged_ms: None)
    before, began_s = coordinator.heartbeats, time.monotonic()

    def is_forwarded() -> bool:
        assert member.heartbeat() is NONE
        return coordinator.heartbeats > before

    eventually(is_forwarded, "a heartbeat that reaches the coordinator")
    assert time.monotonic() - began_s <= 5 * LEASE_MS / 1000


def test_a_lost_channel_ends_all_leases(full: Serving, fresh: Fresh, coordinator: Coordinator) -> None:
    member = stable(full, fresh("g"))
    leased(member, coordinator)
    channel = full.gateway.forwarder.offsets(full.gateway.partition_of(member.group))
    assert channel is not None
    before = coordinator.heartbeats

    async def close() -> None:
        channel.close()

    full.run(close())
    eventually(lambda: member.heartbeat() is NONE and coordinator.heartbeats > before, "a forwarded heartbeat")
    leased(member, coordinator)


def test_a_fault_sees_every_heartbeat(
    full: Serving, fresh: Fresh, coordinator: Coordinator, faults: FaultClient
) -> None:
    member = stable(full, fresh("g"))
    leased(member, coordinator)
    faults.inject("error", api="Heartbeat", group=member.group, error="REBALANCE_IN_PROGRESS")
    assert member.heartbeat() is ErrorCode.rebalance_in_progress
    faults.clear()
    assert member.heartbeat() is NONE


def test_every_heartbeat_is_counted_and_evidence(full: Serving, fresh: Fresh, coordinator: Coordinator) -> None:
    def counted() -> int:
        lines = full.http("/metrics")[1].splitlines()
        found = [line for line in lines if line.startswith("muster_requests_total{") and 'api="Heartbeat"' in line]
        return sum(round(float(line.rpartition(" ")[2])) for line in found)

    member = stable(full, fresh("g"))
    leased(member, coordinator)
    before = counted()
    for _ in range(20):
        member.heartbeat()
    assert counted() - before == 20
    (connection,) = (each for each in full.gateway.connections.values() if each.port == member.client.port)
    assert connection.attribution.group_of("a client") == member.group


def test_a_closed_connection_with_leases_needs_no_garbage_collector(
    full: Serving, fresh: Fresh, coordinator: Coordinator
) -> None:
    """Collections of what is long-lived are rare, and clients may come and go often."""
    member = stable(full, fresh("g"))
    leased(member, coordinator)
    ports = {each.port: each for each in full.gateway.connections.values() if isinstance(each, Connection)}
    connection = weakref.ref(ports.pop(member.client.port))
    ports.clear()
    gc.disable()
    try:
        member.client.close()
        eventually(lambda: connection() is None, "the connection is freed")
    finally:
        gc.enable()


def test_a_client_whose_time_is_limited_gets_no_lease(full: Serving, fresh: Fresh, coordinator: Coordinator) -> None:
    """Each of its heartbeats is charged, as by Kafka."""
    everyone = Entity.of_client(None)
    limit(full, everyone, request_percentage=1000)
    try:
        member = stable(full, fresh("g"))
        before = coordinator.heartbeats
        assert {member.heartbeat() for _ in range(20)} == {NONE}
        assert coordinator.heartbeats == before + 20
    finally:
        limit(full, everyone, request_percentage=0)
    leased(member, coordinator)

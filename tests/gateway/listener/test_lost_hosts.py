"""A host is lost without a sign: the other gateways have their clients request the metadata, and lose no response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.complaints import Cause, Complaint
from muster.gateway.listener.lost_hosts import LostHosts
from muster.placement.view import Broker, ClusterView
from tests.gateway.apis.test_data_apis import FETCH, fetch_body
from tests.gateway.group_client import Member
from tests.gateway.serving import Client, Serving
from tests.zookeeper_fixture import eventually

PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}
API_VERSIONS = 18

Fresh = Callable[[str], str]


def until_waiting(full: Serving, client: Client) -> None:
    def waits() -> bool:
        return any(each.port == client.port and each.waiting for each in full.gateway.connections.values())

    eventually(waits, "a request waits")


def end_connections(full: Serving) -> None:
    full.run(full.gateway.end_connections(Complaint(Cause.HOST_LOST, "a host is lost")))


def test_an_idle_connection_is_closed(full: Serving) -> None:
    with full.connect() as client:
        client.exchange(API_VERSIONS, 0, {})
        end_connections(full)
        assert client.is_closed()


def test_a_fetch_that_waits_is_answered_first(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"))
    with full.connect() as client:
        client.request(FETCH, 18, fetch_body((topic, 0, 0), max_wait=500, min_bytes=1))
        until_waiting(full, client)
        end_connections(full)
        client.response(FETCH, 18)
        assert client.is_closed()


def test_what_comes_behind_a_request_of_a_busy_client_is_not_begun(
    full: Serving, fresh: Fresh, caplog: pytest.LogCaptureFixture
) -> None:
    """Its connection is closed after the response, and the log says why."""
    topic = full.create(fresh("t"))
    with full.connect() as client:
        client.request(FETCH, 18, fetch_body((topic, 0, 0), max_wait=4000, min_bytes=1))
        until_waiting(full, client)
        end_connections(full)
        client.request(API_VERSIONS, 0, {})
        client.response(FETCH, 18)
        assert client.is_closed()
        assert any(f":{client.port} closed: a host is lost" in message for message in caplog.messages)


def test_a_member_that_waits_for_others_is_left_alone(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")
    with full.connect() as one, full.connect() as other:
        first, second = Member(one, group), Member(other, group)
        first.join()
        second.request_join()
        if second.joined().error_code:
            second.request_join()
        until_waiting(full, other)
        end_connections(full)
        assert other.has_nothing_for(0.1)
        leaving = Member(full.connect(), group)
        leaving.id = first.id
        leaving.leave()
        assert second.joined().generation_id == 2
        assert other.is_closed()


def test_a_connection_that_fetches_stays_open_and_gets_an_error(full: Serving, fresh: Fresh) -> None:
    """Closing the connection would leave librdkafka only that to the lost host, on which it would request metadata."""
    topic = full.create(fresh("t"))
    with full.connect() as fetching, full.connect() as idle:
        idle.exchange(API_VERSIONS, 0, {})
        fetched = lambda: fetching.exchange(FETCH, 18, fetch_body((topic, 0, 0))).responses[0].partitions[0]  # noqa: E731
        assert fetched().error_code is ErrorCode.none
        full.run(full.gateway.have_metadata_requested(Complaint(Cause.HOST_LOST, "a host is lost")))
        assert idle.is_closed()
        assert fetched().error_code is ErrorCode.not_leader_or_follower
        assert fetched().error_code is ErrorCode.none


def test_a_connection_that_fetched_long_ago_is_closed(
    full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client fetches from another gateway now, and will not get the error."""
    topic = full.create(fresh("t"))
    with full.connect() as client:
        client.exchange(FETCH, 18, fetch_body((topic, 0, 0)))
        monkeypatch.setattr("muster.gateway.listener.server._FETCHING_MS", -1_000)  # every Fetch was too long ago
        full.run(full.gateway.have_metadata_requested(Complaint(Cause.HOST_LOST, "a host is lost")))
        assert client.is_closed()


def view(version: int, *nodes: str) -> ClusterView:
    brokers = tuple(Broker(id=n, host="h", port=1, node_id=node) for n, node in enumerate(nodes, 1))
    return ClusterView(
        cluster_id="c", controller_epoch=1, version=version, brokers=brokers, topics={}, logs={}, offsets={}
    )


class Ray:
    """Which nodes are alive, and what was done."""

    def __init__(self, *nodes: str) -> None:
        self.nodes = set(nodes)
        self.requested = asyncio.Event()
        self.ended = asyncio.Event()
        self.ends = 0

    async def alive(self) -> set[str]:
        self.requested.set()
        return self.nodes

    async def end(self, complaint: Complaint) -> None:
        self.ends += 1
        self.ended.set()


def run(scenario: Callable[[Ray, LostHosts], Awaitable[None]]) -> None:
    async def main() -> None:
        ray = Ray("a", "b", "c")
        hosts = LostHosts(ray.alive, ray.end)
        async with asyncio.timeout(20):
            await scenario(ray, hosts)
        hosts.stop()

    asyncio.run(main())


def test_connections_end_once_the_node_of_a_missing_gateway_is_dead() -> None:
    async def scenario(ray: Ray, hosts: LostHosts) -> None:
        hosts.follow(view(1, "a", "b", "c"), view(2, "a", "c"))
        await ray.requested.wait()
        assert ray.ends == 0
        ray.nodes.remove("b")
        hosts.follow(view(2, "a", "c"), view(3, "a", "c"))
        await ray.ended.wait()
        hosts.follow(view(3, "a", "c"), view(4, "a", "c"))
        assert ray.ends == 1

    run(scenario)


def test_a_gateway_that_starts_again_ends_no_connection() -> None:
    async def scenario(ray: Ray, hosts: LostHosts) -> None:
        hosts.follow(view(1, "a", "b"), view(2, "a"))
        await ray.requested.wait()
        hosts.follow(view(2, "a"), view(3, "a", "b"))
        ray.nodes.remove("b")
        ray.requested.clear()
        hosts.follow(view(3, "a", "b"), view(4, "a", "b"))
        assert hosts._watching is not None
        await hosts._watching
        assert ray.ends == 0

    run(scenario)

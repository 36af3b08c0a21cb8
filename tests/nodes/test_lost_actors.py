"""Actors that are lost on a Ray whose workers take seconds to start: how long clients miss them."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from muster.actors.wire.kafka import codec
from tests.cluster.consumer_groups.groups import create
from tests.muster_process import eventually
from tests.nodes.bench import SETTLED_S, Bench
from tests.nodes.gaps import Gaps, gaps

KILLS = 3
WAIT_S = 60


def gateway_beside(bench: Bench, node_id: str) -> str:
    """Return the address of a gateway of another node."""
    addresses = {actor["node_id"]: actor["address"] for actor in bench.status()["actors"] if actor["address"]}
    return next(str(address) for home, address in addresses.items() if home != node_id)


def report(what: str, found: Gaps, record_property: Callable[[str, object], None]) -> None:
    for kind, seconds in found.longest_s.items():
        record_property(f"{what}, longest gap of {kind}", round(seconds, 2))
        print(f"{what}, longest gap of {kind}: {seconds:.2f} s")
    print(f"{what}, errors: {dict(found.errors)}")


@pytest.mark.timeout(600)
def test_a_killed_log_actor_is_hardly_missed(
    on_nodes: Bench, fresh: Callable[[str], str], record_property: Callable[[str, object], None]
) -> None:
    topic = fresh("t")
    create(on_nodes.muster, topic)
    homes = on_nodes.until_settled()
    with gaps(topic, gateway_beside(on_nodes, homes["log-0"])) as found:
        for _ in range(KILLS):
            with a_standby_serves(on_nodes, "log-0"):
                pid = on_nodes.muster.kill_actor("log-0")
            on_nodes.muster.until_back("log-0", pid)
            on_nodes.until_settled()
    report("log actor killed", found, record_property)


@pytest.mark.timeout(600)
def test_the_logs_of_a_lost_node_are_served_elsewhere(
    on_nodes: Bench, fresh: Callable[[str], str], record_property: Callable[[str, object], None]
) -> None:
    """A standby of another node serves until Ray has started the actor anew."""
    topic = fresh("t")
    create(on_nodes.muster, topic)
    homes = on_nodes.until_settled()
    nodes = on_nodes.nodes
    lost = next(
        node
        for node in nodes.nodes.values()
        if node != nodes.head and node.node_id != homes["controller"] and node.node_id in _homes_of_logs(homes)
    )
    log = next(name for name, home in homes.items() if home == lost.node_id and name.startswith("log-"))
    with gaps(topic, gateway_beside(on_nodes, lost.node_id)) as found:
        with a_standby_serves(on_nodes, log):
            nodes.kill(lost)
        elsewhere = lambda now: lost.node_id not in now.values()  # noqa: E731
        eventually(on_nodes.until_settled, elsewhere, "everything serves elsewhere", SETTLED_S)
    report("node lost", found, record_property)
    nodes.add()
    on_nodes.until_settled()


@pytest.mark.timeout(600)
def test_the_address_of_a_killed_gateway_serves_again(
    on_nodes: Bench, record_property: Callable[[str, object], None]
) -> None:
    """Who connects meanwhile is served by the standby of its node."""
    on_nodes.until_settled()
    request = codec.encode_request(codec.API_VERSIONS, 0, 1, "a client", {})
    took_s = []
    for _ in range(KILLS):
        gateway = next(actor for actor in on_nodes.status()["actors"] if actor["name"].startswith("gateway-"))
        host, _, port = gateway["address"].rpartition(":")
        os.kill(gateway["pid"], signal.SIGKILL)
        killed_s = time.monotonic()
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
            connection.sendall(len(request).to_bytes(4, "big") + request)
            assert len(connection.recv(4)) == 4
        took_s.append(round(time.monotonic() - killed_s, 2))
        on_nodes.muster.until_back(gateway["name"], gateway["pid"])
        on_nodes.until_settled()
    record_property("gateway killed, first response at its address", max(took_s))
    print(f"gateway killed, first responses at its address: {took_s} s")


@pytest.mark.timeout(600)
def test_clients_of_a_killed_gateway_are_served_at_its_address(
    on_nodes: Bench, fresh: Callable[[str], str], record_property: Callable[[str, object], None]
) -> None:
    """By the standby of its node, then by its next process; it stays a broker to all clients meanwhile.

    The standby's log says that it served: that may be over before a command has found it out.
    """
    topic = fresh("t")
    create(on_nodes.muster, topic)
    on_nodes.until_settled()
    brokers = {broker.id for broker in on_nodes.nodes.view().brokers}
    actors = on_nodes.muster.actors
    gateway = next(actor for name, actor in actors().items() if name.startswith("gateway-"))
    with gaps(topic, str(gateway["address"])) as found:
        for _ in range(KILLS):
            with a_standby_serves(on_nodes, str(gateway["name"])):
                pid = on_nodes.muster.kill_actor(str(gateway["name"]))
            assert {broker.id for broker in on_nodes.nodes.view().brokers} == brokers
            assert on_nodes.muster.until_back(gateway["name"], pid)["stand_in"] is None
    report("gateway killed", found, record_property)


@contextmanager
def a_standby_serves(bench: Bench, actor: str) -> Iterator[None]:
    """Wait after the block until a standby has served in place of the actor.

    By its log: that may be over before a command sees it.
    """
    before = bench.served_by_standbys(actor)
    yield
    after = lambda: bench.served_by_standbys(actor)  # noqa: E731
    eventually(after, lambda now: now > before, f"a standby serves in place of {actor}", WAIT_S)


def _homes_of_logs(homes: dict[str, str]) -> set[str]:
    return {home for name, home in homes.items() if name.startswith("log-")}

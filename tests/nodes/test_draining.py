"""A node is drained while real clients work, which must not notice."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from muster.actors.runtime.process import now_ms
from tests.cluster.consumer_groups.groups import create
from tests.muster_process import eventually
from tests.nodes.bench import SETTLED_S, Bench, moved
from tests.nodes.gaps import gaps
from tests.nodes.work import drain, work
from tests.raw_client import connect
from tests.table_rows import table_rows

METADATA = (3, 8)
CLIENTS = 20
"""Clients of a gateway that is drained, which closes their connections one after the other."""


async def metadata(gateway: str, topic: str) -> Any:
    """Return a Metadata response to a client that connects to the gateway now."""
    (connection,) = await connect([gateway], 1)
    no_rights = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
    request = {"topics": [{"name": topic}], "allow_auto_topic_creation": False, **no_rights}
    found = await connection.call(METADATA, request)
    connection.close()
    return found


def states(bench: Bench) -> dict[str, str]:
    return {node["node_id"]: node["state"] for node in bench.status()["nodes"] if node["state"] != "dead"}


@pytest.mark.timeout(600)
def test_a_node_is_drained(on_nodes: Bench, fresh: Callable[[str], str]) -> None:
    """The controller's node, so the controller moves too."""
    with work(on_nodes, fresh) as clients:
        before = on_nodes.until_settled()
        stable = clients.stability()
        drained = before["controller"]

        began_ms = now_ms()
        done = drain(on_nodes, drained[:12])
        assert done.returncode == 0, done.stderr
        assert f"node {drained} " in done.stdout
        assert "is drained: it runs nothing of Muster" in done.stdout
        assert "left: " in done.stderr
        after = {actor["name"]: actor for actor in on_nodes.status()["actors"]}
        assert drained not in {actor["node_id"] for actor in after.values()}
        assert states(on_nodes)[drained] == "drained"
        stayed = {name: home for name, home in moved(before).items() if home != drained}
        assert {name: after[name]["node_id"] for name in stayed} == stayed
        leavers = {"controller", *(name for name, home in moved(before).items() if home == drained)}
        recorded = eventually(
            lambda: [
                row
                for row in table_rows(on_nodes.muster.storage, "lifecycle")
                if row["actor"] in leavers and row["ts"] >= began_ms
            ],
            lambda rows: leavers <= {row["actor"] for row in rows if row["event"] == "moved"},
            "the table lifecycle has all moves",
        )
        assert "lost" not in {row["event"] for row in recorded if row["seen_by"] == "controller"}
        assert {row["node_id"] for row in recorded if row["event"] == "moved"} == {drained}
        clients.go_on()
        assert clients.stability() == stable
        create(on_nodes.muster, fresh("made-without"))

        address = on_nodes.status()["nodes"][0]["address"]
        assert f"{address} is 3 nodes" in drain(on_nodes, address).stderr
        assert "can run actors again" in drain(on_nodes, drained, "--undo").stdout
        assert drained in on_nodes.until_placed().values()
        clients.go_on()
        assert clients.stability() == stable
        assert json.loads(on_nodes.muster.cli("topics", "list", "--json"))


def post(bench: Bench, path: str, node: str) -> tuple[int, Any]:
    """Send the request to a gateway on another node."""
    gateways = (actor for actor in bench.status()["actors"] if actor["name"].startswith("gateway-"))
    url = next(each["metrics_url"] for each in gateways if each["node_id"] != node and each["metrics_url"])
    body, headers = json.dumps({"node_id": node}).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(url.removesuffix("/metrics") + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.timeout(300)
def test_a_node_is_drained_over_http(on_nodes: Bench) -> None:
    node = on_nodes.until_placed()["log-0"]
    assert post(on_nodes, "/v1/nodes/drain", "f" * len(node))[0] == 404
    assert post(on_nodes, "/v1/nodes/drain", node) == (200, {"node_id": node})
    eventually(lambda: states(on_nodes), lambda found: found[node] == "drained", "the node is drained", SETTLED_S)
    assert node not in {actor["node_id"] for actor in on_nodes.status()["actors"]}
    assert post(on_nodes, "/v1/nodes/undrain", node) == (200, {"node_id": node})
    assert node in on_nodes.until_placed().values()


@pytest.mark.timeout(600)
def test_a_controller_that_dies_leaves_no_share_half_given(on_nodes: Bench) -> None:
    """Its successor finds actors on every node, and moves the rest of the share to the one that joined."""
    admin = AdminClient({"bootstrap.servers": on_nodes.muster.bootstrap})
    for group in range(40):  # so that each partition's coordinator is started
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(f"g-{group}")])[f"g-{group}"].result(60)
    before = on_nodes.until_settled()
    node, share = Counter(moved(before).values()).most_common(1)[0]
    assert share > len(moved(before)) // 3
    for options in ([], ["--undo"]):
        assert drain(on_nodes, node, *options).returncode == 0
    actors = eventually(
        lambda: {actor["name"]: actor for actor in on_nodes.status()["actors"]},
        lambda actors: node in moved({name: actor["node_id"] for name, actor in actors.items()}).values(),
        "the node has got an actor",
        SETTLED_S,
    )
    os.kill(actors["controller"]["pid"], signal.SIGKILL)
    on_nodes.until_placed()


@pytest.mark.timeout(600)
def test_clients_leave_a_drained_gateway_before_it_stops(on_nodes: Bench, fresh: Callable[[str], str]) -> None:
    """Their connections are closed between two requests; who connects again is served, and finds other leaders."""
    topic = fresh("t")
    create(on_nodes.muster, topic)
    on_nodes.until_settled()
    gateway = next(actor for actor in on_nodes.status()["actors"] if actor["name"].startswith("gateway-"))
    host, _, port = gateway["address"].rpartition(":")
    with ThreadPoolExecutor(1) as beside, ExitStack() as connections:
        of_clients = [connections.enter_context(socket.create_connection((host, int(port)))) for _ in range(CLIENTS)]
        draining = beside.submit(drain, on_nodes, gateway["node_id"])
        (first, *_), _, _ = select.select(of_clients, (), (), None)
        assert first.recv(1) == b"", "the gateway closes it"
        found = asyncio.run(metadata(gateway["address"], topic))
        brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in found.brokers}
        assert len(brokers) == 3
        leaders = {brokers[partition.leader_id] for partition in found.topics[0].partitions}
        assert len(leaders) == 2
        assert gateway["address"] not in leaders
        assert draining.result().returncode == 0
    assert drain(on_nodes, gateway["node_id"], "--undo").returncode == 0
    on_nodes.until_settled()


@pytest.mark.timeout(600)
def test_a_log_actor_that_moves_is_hardly_missed(
    on_nodes: Bench, fresh: Callable[[str], str], record_property: Callable[[str, object], None]
) -> None:
    """By the clients of a gateway on another node."""
    topic = fresh("t")
    create(on_nodes.muster, topic)
    before = on_nodes.until_settled()
    drained = before["log-0"]
    addresses = {actor["node_id"]: actor["address"] for actor in on_nodes.status()["actors"] if actor["address"]}
    gateway = next(address for node_id, address in addresses.items() if node_id != drained)
    before_it = on_nodes.served_by_standbys("log-0")
    with gaps(topic, gateway) as found:
        assert drain(on_nodes, drained).returncode == 0
    assert drain(on_nodes, drained, "--undo").returncode == 0
    for what, seconds in found.longest_s.items():
        record_property(f"log actor moved, longest gap of {what}", round(seconds, 2))
        print(f"log actor moved, longest gap of {what}: {seconds:.2f} s")
    print(f"errors meanwhile: {dict(found.errors)}")
    assert on_nodes.served_by_standbys("log-0") > before_it
    on_nodes.until_settled()

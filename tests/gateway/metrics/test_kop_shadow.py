"""KoP's rule beside ours on real gateways over one ZooKeeper: what it would have lost, and what given to others."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.gateway.kop.shadow import Outcome, outcome_of
from muster.gateway.listener.gateway import Gateway
from muster.placement.layout import CLIENT_GROUP_ID, KOP_SHADOW
from muster.placement.view import Topic
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.attribution.kop.served import join, read, write
from tests.attribution.kop.three_gateways import NAMES, ThreeGateways, three_gateways
from tests.gateway.group_client import find
from tests.gateway.serving import Client, Serving
from tests.zookeeper_fixture import eventually

PROPERTIES = {"group.initial.rebalance.delay.ms": "0", "metrics.kop.shadow.enable": "true"}
GROUP = "orders"
CLIENT_ID = "rdkafka"
NODE = f"{KOP_SHADOW}{CLIENT_GROUP_ID}/127.0.0.1-{CLIENT_ID}"
Told = Counter[tuple[str, str]]
"""(our group, outcome) -> bytes."""


@pytest.fixture
def cluster(zk: ZooKeeperClient, tmp_path: Path) -> Iterator[tuple[ThreeGateways, Serving]]:
    with three_gateways(zk, tmp_path, PROPERTIES) as running:
        yield running


def told(cluster: tuple[ThreeGateways, Serving]) -> Told:
    """By the metrics of all gateways that there ever were."""
    three, backstage = cluster

    async def collect(gateway: Gateway) -> Told:
        found: Told = Counter()
        for family in gateway.metrics.collect():
            for sample in family.samples:
                if sample.name == "muster_kop_shadow_fetch_bytes_total":
                    found[sample.labels["group"], sample.labels["outcome"]] += int(sample.value)
        return found

    return sum((backstage.run(collect(gateway)) for gateway in (*three.gateways.values(), *three.retired)), Counter())


def topic_on_all(three: ThreeGateways, backstage: Serving) -> tuple[Topic, dict[str, int]]:
    """A topic, and a partition with records for each gateway that leads it."""
    topic = backstage.create("t", 60)
    led_by = {three.leader(topic, partition): partition for partition in range(topic.partitions)}
    assert set(led_by) == set(NAMES)
    write(backstage.client, topic, *led_by.values())
    return topic, led_by


def look_up(client: Client, group: str, zk: ZooKeeperClient) -> None:
    """Ask for the coordinator; returns when KoP's node says so, on which KoP would have had the client wait."""
    find(client, 4, group)
    eventually(lambda: zk.exists(NODE) and zk.get(NODE)[0] == group.encode(), f"the node has {group}")


def test_the_incident_in_small(cluster: tuple[ThreeGateways, Serving], zk: ZooKeeperClient) -> None:
    """A is asked, its connection closes, a new one on another gateway fetches: lost for KoP, the group's for us."""
    three, backstage = cluster
    topic, led_by = topic_on_all(three, backstage)
    find(backstage.client, 4, GROUP)
    on = three.coordinator(GROUP)
    asked, third = (name for name in NAMES if name != on)
    with three.connect(on, CLIENT_ID) as coordinator, three.connect(asked, CLIENT_ID) as asking:
        join(coordinator, GROUP, topic.name, range(topic.partitions))
        look_up(asking, GROUP, zk)
        with three.connect(third, CLIENT_ID) as fetching:
            agreed = read(fetching, topic, led_by[third])
            eventually(lambda: told(cluster) == {(GROUP, "agreed"): agreed}, f"agreed: {told(cluster)}")
            three.stop(asked)
            assert not zk.exists(NODE), "A's closing connection deletes the node"
            agreed += read(fetching, topic, led_by[third])
        with three.connect(third, CLIENT_ID) as anew:
            lost = read(anew, topic, led_by[third])
    expected = {(GROUP, "agreed"): agreed, (GROUP, "lost"): lost}
    eventually(lambda: told(cluster) == expected, f"{told(cluster)} is {expected}")
    assert three.fetched() == {GROUP: agreed + lost}


def test_series_go_with_their_group(cluster: tuple[ThreeGateways, Serving], zk: ZooKeeperClient) -> None:
    """When the books have none of a group any more, what was compared stays counted, under no group."""
    three, backstage = cluster
    topic, led_by = topic_on_all(three, backstage)
    with three.connect("A", CLIENT_ID) as client:
        join(client, GROUP, topic.name, [led_by["A"]])
        look_up(client, GROUP, zk)
        sent = read(client, topic, led_by["A"])
        eventually(lambda: told(cluster) == {(GROUP, "agreed"): sent}, f"agreed: {told(cluster)}")
    shadow = three.gateways["A"].shadow
    assert shadow is not None

    async def forget() -> None:
        list(shadow.families("A", counted=()))

    backstage.run(forget())
    assert told(cluster) == {("", "agreed"): sent}


def test_two_groups_with_one_client_id(cluster: tuple[ThreeGateways, Serving], zk: ZooKeeperClient) -> None:
    """F4: the last that looked its coordinator up has the node; what each fetches is its own for us."""
    three, backstage = cluster
    topic, led_by = topic_on_all(three, backstage)
    with three.connect("A", CLIENT_ID) as a, three.connect("B", CLIENT_ID) as b:
        join(a, "a", topic.name, [led_by["A"]])
        join(b, "b", topic.name, [led_by["B"]])
        for client, group in ((a, "a"), (b, "b")):
            look_up(client, group, zk)
        with three.connect("A", CLIENT_ID) as fetching_a, three.connect("B", CLIENT_ID) as fetching_b:
            wrong, right = read(fetching_a, topic, led_by["A"]), read(fetching_b, topic, led_by["B"])
        expected = {("a", "mislabelled"): wrong, ("b", "agreed"): right}
        eventually(lambda: told(cluster) == expected, f"{told(cluster)} is {expected}")


def test_a_client_id_that_makes_no_path(cluster: tuple[ThreeGateways, Serving]) -> None:
    """F9: for KoP there is no node then, and no label; the client is served as ever."""
    three, backstage = cluster
    topic, led_by = topic_on_all(three, backstage)
    with three.connect("A", "a/../b") as client:
        find(client, 4, GROUP)
        sent = read(client, topic, led_by["A"])
        three.stop("A")
    (gateway,) = three.retired

    async def settle() -> None:
        gateway.account.close()

    backstage.run(settle())
    eventually(lambda: told(cluster) == {("", "neither"): sent}, f"neither names a group: {told(cluster)}")


def test_clients_do_not_wait_for_what_the_shadow_waits_for(cluster: tuple[ThreeGateways, Serving]) -> None:
    """F18, with a ZooKeeper that nobody answers at: what KoP would have made of the bytes is not known yet."""
    three, backstage = cluster
    topic, led_by = topic_on_all(three, backstage)
    three.stop("A")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        backstage.controller.zk_hosts = f"127.0.0.1:{mute.getsockname()[1]}"
        three.start("A")
        with three.connect("A", CLIENT_ID) as client:
            join(client, GROUP, topic.name, [led_by["A"]])
            sent = read(client, topic, led_by["A"])
        families = {family.name: family for family in three.gateways["A"].metrics.collect()}
    assert sent
    assert three.fetched() == {GROUP: sent}
    assert not families["muster_kop_shadow_fetch_bytes"].samples
    assert families["muster_kop_shadow_waiting_fetch_bytes"].samples[0].value == sent


def test_what_the_rule_makes_of_bytes() -> None:
    assert outcome_of("g", "g") is Outcome.AGREED
    assert outcome_of("", "g") is Outcome.LOST
    assert outcome_of("h", "g") is Outcome.MISLABELLED
    assert outcome_of("h", None) is Outcome.ONLY_KOP
    assert outcome_of("", None) is Outcome.NEITHER
    assert outcome_of("", "") is Outcome.LOST, "a group whose id is empty is one"

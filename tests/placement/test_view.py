"""The cluster's snapshot: its order, its leaders, and its replicas over racks."""

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter, defaultdict
from functools import partial
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.placement.leaders import replicas
from muster.placement.view import OFFSETS_TOPIC, Broker, ClusterView, Endpoint, Topic

FLIGHTS = Topic(name="flights", topic_id=UUID(int=1), partitions=6)
OFFSETS = Topic(name=OFFSETS_TOPIC, topic_id=UUID(int=2), partitions=50, internal=True)


def endpoint(node: str) -> Endpoint:
    return Endpoint(node_id=node, host="127.0.0.1", port=1, path=f"/tmp/{node}", secret=b"secret")


def broker(broker_id: int, node: str) -> Broker:
    return Broker(id=broker_id, host="127.0.0.1", port=9092 + broker_id, node_id=node)


VIEW = ClusterView(
    cluster_id="c",
    controller_epoch=1,
    version=1,
    brokers=(broker(0, "a"), broker(1, "b"), broker(2, "b")),
    topics={"flights": FLIGHTS, OFFSETS_TOPIC: OFFSETS},
    logs={0: endpoint("a"), 1: endpoint("b"), 2: None},
    offsets={7: endpoint("a"), 8: None},
).with_leaders({})


def test_a_newer_snapshot_compares_greater_also_from_a_restarted_controller() -> None:
    orders = [(1, 2), (2, 1), (2, 10), (10, 0)]
    views = [dataclasses.replace(VIEW, controller_epoch=epoch, version=version) for epoch, version in orders]
    assert sorted(views, key=lambda view: view.order) == views
    assert VIEW.order < views[0].order


def test_a_topic_is_found_by_its_id() -> None:
    assert VIEW.topic_by_id(UUID(int=1)) is FLIGHTS
    assert VIEW.topic_by_id(UUID(int=3)) is None


def test_the_leader_is_a_gateway_on_the_node_of_the_partitions_actor() -> None:
    """If leaders are assigned evenly; tests/placement/test_leaders.py."""
    leaders = [VIEW.leader_of(FLIGHTS, partition) for partition in range(FLIGHTS.partitions)]
    assert Counter(leader.id for leader in leaders if leader is not None) == {0: 2, 1: 2, 2: 2}
    for partition, leader in enumerate(leaders):
        owner = VIEW.logs[VIEW.log_of(FLIGHTS, partition)]
        assert leader is not None
        assert owner is None or leader.node_id == owner.node_id


def test_a_gateway_that_leaves_leads_and_coordinates_nothing() -> None:
    """It remains one of the brokers."""
    brokers = tuple(dataclasses.replace(each, leaves=each.id == 0) for each in VIEW.brokers)
    view = dataclasses.replace(VIEW, brokers=brokers).with_leaders(VIEW.leaders)
    topic = dataclasses.replace(FLIGHTS, replication_factor=3)
    named = {number for partition in range(6) for number in view.replicas_of(topic, partition)}
    coordinators = [view.coordinator_of(partition) for partition in range(50)]
    assert named == {1, 2}
    assert {found.id for found in coordinators if found is not None} == {1, 2}
    assert VIEW.coordinator_of(7) == VIEW.brokers[0]


def test_if_all_gateways_leave_they_lead_to_the_end() -> None:
    brokers = tuple(dataclasses.replace(each, leaves=True) for each in VIEW.brokers)
    view = dataclasses.replace(VIEW, brokers=brokers).with_leaders(VIEW.leaders)
    assert view.leaders == VIEW.leaders


def test_the_logs_of_a_topic_are_dealt_out_from_any_first_one() -> None:
    topics = [dataclasses.replace(FLIGHTS, topic_id=UUID(int=number)) for number in range(3)]
    owners = [[VIEW.log_of(topic, partition) for partition in range(6)] for topic in topics]
    assert owners == [[0, 1, 2, 0, 1, 2], [1, 2, 0, 1, 2, 0], [2, 0, 1, 2, 0, 1]]


def test_the_leader_is_the_first_of_as_many_replicas_as_there_can_be() -> None:
    for factor, expected in ((1, 1), (2, 2), (3, 3), (4, 3), (32_767, 3)):
        topic = dataclasses.replace(FLIGHTS, replication_factor=factor)
        for partition in range(topic.partitions):
            replicas, leader = VIEW.replicas_of(topic, partition), VIEW.leader_of(topic, partition)
            assert leader is not None
            assert replicas[0] == leader.id
            assert len(replicas) == len(set(replicas)) == expected
            assert set(replicas) <= {0, 1, 2}
    assert dataclasses.replace(VIEW, brokers=()).replicas_of(FLIGHTS, 0) == []


def test_the_coordinator_is_the_leader_of_the_groups_offsets_partition() -> None:
    coordinator = VIEW.coordinator_of(7)
    assert coordinator is not None
    assert coordinator.node_id == "a"
    for partition in range(OFFSETS.partitions):
        assert VIEW.coordinator_of(partition) == VIEW.leader_of(OFFSETS, partition)
        assert VIEW.coordinator_of(partition) in VIEW.brokers


@pytest.mark.parametrize("topic", [FLIGHTS, OFFSETS], ids=lambda topic: topic.name)
@pytest.mark.parametrize("partition", [-1, -(2**31), 2**31 - 1])
def test_a_partition_that_does_not_exist_has_no_leader_and_takes_no_memory(topic: Topic, partition: int) -> None:
    before = len(VIEW._found)
    assert VIEW.leader_of(topic, partition) is None
    assert VIEW.replica_in("a", topic, partition) is None
    assert len(VIEW._found) == before


def test_a_gateway_that_is_gone_leads_nothing() -> None:
    gone = dataclasses.replace(VIEW, brokers=VIEW.brokers[1:])
    leaders = [gone.leader_of(FLIGHTS, partition) for partition in range(FLIGHTS.partitions)]
    assert leaders.count(None) == 2
    again = gone.with_leaders(VIEW.leaders)
    assert all(
        new == old for old, new in zip(leaders, map(partial(again.leader_of, FLIGHTS), range(6)), strict=True) if old
    )


def test_without_gateways_nobody_leads() -> None:
    empty = dataclasses.replace(VIEW, brokers=()).with_leaders(VIEW.leaders)
    assert empty.coordinator_of(7) is None
    assert empty.leader_of(FLIGHTS, 0) is None


def test_a_partition_keeps_its_log_actor_while_the_actor_is_down() -> None:
    down = dataclasses.replace(VIEW, logs=dict.fromkeys(VIEW.logs))
    assert [down.log_of(FLIGHTS, p) for p in range(6)] == [VIEW.log_of(FLIGHTS, p) for p in range(6)]


def test_it_travels_and_shows_no_secret() -> None:
    assert pickle.loads(pickle.dumps(VIEW)) == VIEW
    assert "secret" not in repr(VIEW)


RACKS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9)


def brokers_in(*racks: str | None) -> list[Broker]:
    return [
        Broker(id=number, host="h", port=number, node_id="n", rack=rack) for number, rack in enumerate(racks, start=1)
    ]


def test_without_racks_they_follow_by_id() -> None:
    brokers = brokers_in(None, None, None)
    assert [replicas(leader, brokers) for leader in brokers] == [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


def test_each_rack_has_one_before_any_has_two() -> None:
    brokers = brokers_in("a", "a", "b", "b", "c")
    assert [replicas(leader, brokers) for leader in brokers] == [
        [1, 3, 5, 2, 4],
        [2, 4, 5, 3, 1],
        [3, 5, 1, 4, 2],
        [4, 5, 2, 1, 3],
        [5, 1, 3, 2, 4],
    ]


def test_gateways_without_a_rack_come_last() -> None:
    brokers = brokers_in("a", None, "b")
    assert [replicas(leader, brokers) for leader in brokers] == [[1, 3, 2], [2, 1, 3], [3, 1, 2]]


@given(RACKS)
def test_all_racks_are_covered_and_consumers_of_a_rack_are_spread(racks: list[str | None]) -> None:
    brokers = brokers_in(*racks)
    rack_of = {broker.id: broker.rack for broker in brokers}
    known = {rack for rack in racks if rack is not None}
    led_to: dict[tuple[str | None, str], Counter[int]] = defaultdict(Counter)
    for leader in brokers:
        found = replicas(leader, brokers)
        assert found[0] == leader.id
        assert sorted(found) == sorted(rack_of)
        needed = len(known) + (leader.rack is None)
        assert {rack_of[each] for each in found[:needed]} - {None} == known
        for rack in known - {leader.rack}:
            led_to[leader.rack, rack][next(each for each in found if rack_of[each] == rack)] += 1
    for (leading, rack), counts in led_to.items():
        if leading is not None:
            members = [broker_id for broker_id in rack_of if rack_of[broker_id] == rack]
            found_counts = [counts[member] for member in members]
            assert max(found_counts) - min(found_counts) <= 1


def test_which_replica_is_in_a_rack() -> None:
    topic = Topic(name="t", topic_id=UUID(int=1), partitions=1, replication_factor=2)
    view = ClusterView(
        cluster_id="c",
        controller_epoch=1,
        version=1,
        brokers=tuple(brokers_in("a", "b", "b", "c")),
        topics={"t": topic},
        logs={},
        offsets={},
        leaders={topic.topic_id: (3,)},
    )
    assert view.replicas_of(topic, 0) == [3, 4]
    found = {rack: view.replica_in(rack, topic, 0) for rack in ("a", "b", "c", "d")}
    assert found == {"a": None, "b": 3, "c": 4, "d": None}
    assert [view.rack_of(broker_id) for broker_id in (1, 4, 9)] == ["a", "c", None]

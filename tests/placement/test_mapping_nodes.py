"""Conditional writes in a real ZooKeeper: what is read is what is removed."""

from __future__ import annotations

import threading

import pytest

from placement.mapping import encode_registration, registration_path
from placement.mapping_nodes import MappingNodes
from placement.repair import Node
from placement.zookeeper import ZooKeeperClient
from tests.placement.strategies import registration

PATH = registration_path(registration("billing"))
OLD, NEW = encode_registration(registration("billing")), encode_registration(registration("billing", sequence=9))


@pytest.fixture
def nodes(zk: ZooKeeperClient) -> MappingNodes:
    return MappingNodes(zk, timeout_s=10)


def test_created_once_and_changed_only_at_the_version_that_was_read(nodes: MappingNodes) -> None:
    assert nodes.read(PATH) is None
    assert nodes.create(PATH, OLD)
    assert not nodes.create(PATH, NEW)
    assert nodes.set_if(PATH, NEW, 0)
    assert not nodes.set_if(PATH, OLD, 0)
    node = nodes.read(PATH)
    assert node is not None
    assert (node.data, node.version) == (NEW, 1)


def test_a_late_removal_does_not_hit_a_node_that_was_created_again(nodes: MappingNodes, zk: ZooKeeperClient) -> None:
    """ABA: the new node has the version that the late remover read, and yet stays."""
    nodes.create(PATH, OLD)
    judged: list[bytes] = []

    def condition(node: Node) -> bool:
        judged.append(node.data)
        if len(judged) == 1:
            zk.delete(PATH)
            nodes.create(PATH, NEW)
            assert zk.get(PATH)[1].version == node.version
        return node.data == OLD

    assert not nodes.remove_if(PATH, condition)
    assert judged == [OLD, NEW]
    assert zk.get(PATH)[0] == NEW


def test_a_version_alone_would_have_hit_it(nodes: MappingNodes, zk: ZooKeeperClient) -> None:
    nodes.create(PATH, OLD)
    read = nodes.read(PATH)
    assert read is not None
    zk.delete(PATH)
    nodes.create(PATH, NEW)
    zk.delete(PATH, version=read.version)
    assert not zk.exists(PATH)


def test_removing_what_is_gone_or_has_children_does_nothing(nodes: MappingNodes, zk: ZooKeeperClient) -> None:
    assert not nodes.remove_if(PATH, lambda node: True)
    nodes.create(PATH, OLD)
    assert not nodes.remove_if(PATH.rpartition("/")[0], lambda node: True)
    assert nodes.remove_if(PATH, lambda node: True)
    assert nodes.remove_if(PATH.rpartition("/")[0], lambda node: True)


def test_a_parent_that_is_removed_all_the_time_does_not_stop_a_creation(
    nodes: MappingNodes, zk: ZooKeeperClient
) -> None:
    folder = PATH.rpartition("/")[0]
    stop = threading.Event()

    def remove() -> None:
        while not stop.is_set():
            nodes.remove_if(folder, lambda node: True)

    remover = threading.Thread(target=remove)
    remover.start()
    for number in range(20):
        assert nodes.create(f"{PATH}-{number}", OLD)
        assert nodes.remove_if(f"{PATH}-{number}", lambda node: True)
    stop.set()
    remover.join()

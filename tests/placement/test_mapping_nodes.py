"""Conditional writes in a real ZooKeeper: a node is changed or removed only as it was read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from muster.placement.layout import CLIENT_GROUP_ID
from muster.placement.mapping.nodes import encode_registration, registration_path
from muster.placement.mapping.repair import Node
from muster.placement.mapping.writes import LARGEST_NODE_BYTES, MappingNodes, Outcome, WriteIf, fence_of
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from tests.placement.strategies import registration
from tests.zookeeper_fixture import eventually

PATH = registration_path(registration("billing"))
FOLDER = PATH.rpartition("/")[0]
OLD, NEW = encode_registration(registration("billing")), encode_registration(registration("billing", sequence=9))


@pytest.fixture
def nodes(zk: ZooKeeperClient) -> MappingNodes:
    return MappingNodes(zk, timeout_s=10)


def always(_: Node | None) -> bool:
    return True


def create(nodes: MappingNodes, path: str, data: bytes) -> Outcome:
    return nodes.apply([WriteIf(path, data, lambda node: node is None)])[path]


def remove(nodes: MappingNodes, path: str, when: Callable[[Node | None], bool] = always) -> Outcome:
    return nodes.apply([WriteIf(path, None, when)])[path]


def at_version(version: int) -> Callable[[Node | None], bool]:
    return lambda node: node is not None and node.version == version


def test_created_once_and_changed_only_where_the_condition_holds(nodes: MappingNodes) -> None:
    assert nodes.read(PATH) is None
    assert create(nodes, PATH, OLD) is Outcome.DONE
    assert create(nodes, PATH, NEW) is Outcome.NEEDLESS
    assert nodes.apply([WriteIf(PATH, NEW, at_version(0))]) == {PATH: Outcome.DONE}
    assert nodes.apply([WriteIf(PATH, OLD, at_version(0))]) == {PATH: Outcome.NEEDLESS}
    node = nodes.read(PATH)
    assert node is not None
    assert (node.data, node.version) == (NEW, 1)


class Paused:
    """A client that waits, once, between its read and its write until ``meanwhile`` has ended."""

    def __init__(self, zk: ZooKeeperClient, meanwhile: Callable[[], None]) -> None:
        self._todo = [meanwhile]
        self.nodes = MappingNodes(zk, timeout_s=10, before_write=self._pause)

    def _pause(self, _: int) -> None:
        while self._todo:
            self._todo.pop()()


@pytest.mark.parametrize("root_too", [False, True], ids=["the node alone", "with all that is around it"])
@pytest.mark.parametrize("late", [None, OLD], ids=["removal", "change"])
def test_a_late_write_does_not_hit_a_node_that_was_created_again(
    nodes: MappingNodes, zk: ZooKeeperClient, late: bytes | None, root_too: bool
) -> None:
    """ABA: the new node has the version that the late writer read, and still stays unchanged."""
    create(nodes, PATH, OLD)
    judged: list[bytes] = []

    def recreate() -> None:
        zk.delete(CLIENT_GROUP_ID if root_too else PATH, recursive=True)
        create(nodes, PATH, NEW)
        assert zk.get(PATH)[1].version == 0

    def is_old(node: Node | None) -> bool:
        judged.append(node.data if node else b"")
        return node is not None and node.data == OLD

    paused = Paused(zk, recreate)
    assert paused.nodes.apply([WriteIf(PATH, late, is_old)]) == {PATH: Outcome.NEEDLESS}
    assert judged == [OLD, NEW]
    assert zk.get(PATH)[0] == NEW


def test_a_version_alone_would_have_hit_it(nodes: MappingNodes, zk: ZooKeeperClient) -> None:
    create(nodes, PATH, OLD)
    read = nodes.read(PATH)
    assert read is not None
    zk.delete(PATH)
    create(nodes, PATH, NEW)
    zk.delete(PATH, version=read.version)
    assert not zk.exists(PATH)


def test_every_creation_moves_the_fence_and_nothing_else_does(nodes: MappingNodes, zk: ZooKeeperClient) -> None:
    def version() -> int:
        return int(zk.get(fence_of(PATH))[1].version)

    create(nodes, PATH, OLD)
    created = version()
    nodes.apply([WriteIf(PATH, NEW, always)])
    remove(nodes, PATH)
    assert version() == created
    create(nodes, PATH, OLD)
    assert version() == created + 1


def test_a_removal_in_a_batch_is_guarded_by_what_the_batch_itself_creates_too(
    nodes: MappingNodes, zk: ZooKeeperClient
) -> None:
    """The transaction changes the fence that it checks: the check must come first."""
    twin = next(path for number in range(1000) if fence_of(path := f"{PATH}-{number}") == fence_of(PATH))
    create(nodes, PATH, OLD)
    done = nodes.apply([WriteIf(twin, NEW, always), WriteIf(PATH, None, always)])
    assert done == {twin: Outcome.DONE, PATH: Outcome.DONE}
    assert zk.get_children(FOLDER) == [twin.rpartition("/")[2]]


def test_removing_what_is_gone_or_has_children_does_nothing(nodes: MappingNodes) -> None:
    assert remove(nodes, PATH) is Outcome.NEEDLESS
    create(nodes, PATH, OLD)
    assert remove(nodes, FOLDER) is Outcome.NEEDLESS
    assert remove(nodes, PATH) is Outcome.DONE
    assert remove(nodes, FOLDER) is Outcome.DONE


def test_a_parent_that_is_removed_all_the_time_does_not_stop_a_creation(nodes: MappingNodes) -> None:
    stop = threading.Event()

    def remove_folder() -> None:
        while not stop.is_set():
            remove(nodes, FOLDER)

    remover = threading.Thread(target=remove_folder)
    remover.start()
    for number in range(20):
        assert create(nodes, f"{PATH}-{number}", OLD) is Outcome.DONE
        assert remove(nodes, f"{PATH}-{number}") is Outcome.DONE
    stop.set()
    remover.join()


def test_conflicts_cost_only_those_that_conflict(nodes: MappingNodes, zk: ZooKeeperClient) -> None:
    """After each read of the batch, another client creates one of its nodes: a whole batch could lose forever."""
    paths = [f"{PATH}-{number}" for number in range(64)]
    rival = MappingNodes(zk, timeout_s=10)
    ahead = list(paths)

    def create_one(_: int) -> None:
        if ahead:
            create(rival, ahead.pop(), OLD)

    hindered = MappingNodes(zk, timeout_s=10, before_write=create_one)
    outcomes = hindered.apply(WriteIf(path, NEW, lambda node: node is None) for path in paths)
    assert set(outcomes) == set(paths)
    assert set(outcomes.values()) <= {Outcome.DONE, Outcome.NEEDLESS}
    assert {path: zk.get(path)[0] for path in paths} == {
        path: NEW if outcomes[path] is Outcome.DONE else OLD for path in paths
    }


def test_who_always_loses_gives_up(nodes: MappingNodes, zk: ZooKeeperClient) -> None:
    create(nodes, PATH, OLD)
    tries: list[int] = []

    def change_it(writes: int) -> None:
        tries.append(writes)
        zk.set(PATH, str(len(tries)).encode())

    hindered = MappingNodes(zk, timeout_s=10, before_write=change_it)
    assert hindered.apply([WriteIf(PATH, None, always)]) == {PATH: Outcome.LOST}
    assert len(tries) == 8
    assert zk.exists(PATH)


def test_removals_get_through_while_many_writers_create(zk: ZooKeeperClient, zk_hosts: str) -> None:
    """Coordinators may register thousands of members while others leave."""
    mine = [f"{CLIENT_GROUP_ID}/h/c/gone:{number}" for number in range(300)]
    nodes = MappingNodes(zk, timeout_s=10)
    nodes.apply(WriteIf(path, OLD, always) for path in mine)
    stop = threading.Event()

    def keep_creating(name: int) -> None:
        client = connect(zk_hosts, timeout_s=10)
        writer = MappingNodes(client, timeout_s=10)
        number = 0
        while not stop.is_set():
            create(writer, f"{CLIENT_GROUP_ID}/h/{name}/g:{number}", OLD)
            number += 1
        client.shut()

    writers = [threading.Thread(target=keep_creating, args=(name,)) for name in range(4)]
    for writer in writers:
        writer.start()
    waiting = mine
    while waiting:
        outcomes = nodes.apply(WriteIf(path, None, always) for path in waiting)
        waiting = [path for path, outcome in outcomes.items() if outcome is Outcome.LOST]
    stop.set()
    for writer in writers:
        writer.join()
    assert not zk.get_children(f"{CLIENT_GROUP_ID}/h/c")


def test_a_batch_never_exceeds_what_zookeeper_takes(nodes: MappingNodes, zk: ZooKeeperClient) -> None:
    large = {f"{PATH}-{number}": bytes([number]) * 300_000 for number in range(5)}
    too_large = f"{PATH}-6"
    changes = [WriteIf(path, data, always) for path, data in large.items()]
    outcomes = nodes.apply([*changes, WriteIf(too_large, bytes(LARGEST_NODE_BYTES), always)])
    assert outcomes == dict.fromkeys(large, Outcome.DONE) | {too_large: Outcome.TOO_LARGE}
    assert {path: zk.get(path)[0] for path in large} == large


@pytest.mark.parametrize("seen", [set(), {CLIENT_GROUP_ID, FOLDER.rpartition("/")[0], FOLDER}], ids=["none", "all"])
@pytest.mark.parametrize("there", [False, True], ids=["not there", "there"])
def test_what_was_seen_of_the_nodes_above_need_not_be_true(
    nodes: MappingNodes, zk: ZooKeeperClient, seen: set[str], there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.placement.mapping.writes.CREATED_AT_ONCE", 110)
    if there:
        zk.ensure_path(FOLDER)
    wanted = {f"{PATH}-{number}": b"%d" % number for number in range(250)}
    assert nodes.create(wanted.items(), seen=seen) == dict.fromkeys(wanted, Outcome.DONE)
    assert {path: zk.get(path)[0] for path in wanted} == wanted


def test_a_creation_without_reading_leaves_what_it_meets(nodes: MappingNodes, zk: ZooKeeperClient) -> None:
    create(nodes, f"{PATH}-7", OLD)
    wanted = [(f"{PATH}-{number}", NEW) for number in range(250)]
    outcomes = nodes.create(wanted, seen={CLIENT_GROUP_ID, FOLDER.rpartition("/")[0], FOLDER})
    assert [path for path, outcome in outcomes.items() if outcome is not Outcome.DONE] == [f"{PATH}-7"]
    assert outcomes[f"{PATH}-7"] is Outcome.NEEDLESS
    assert zk.get(f"{PATH}-7")[0] == OLD
    assert zk.get(f"{PATH}-8")[0] == NEW


def test_a_creation_without_reading_moves_the_fence_that_a_late_removal_checks(
    nodes: MappingNodes, zk: ZooKeeperClient
) -> None:
    create(nodes, PATH, OLD)

    def recreate() -> None:
        zk.delete(PATH)
        assert nodes.create([(PATH, NEW)], seen={FOLDER}) == {PATH: Outcome.DONE}

    paused = Paused(zk, recreate)
    is_old = WriteIf(PATH, None, lambda node: node is not None and node.data == OLD)
    assert paused.nodes.apply([is_old]) == {PATH: Outcome.NEEDLESS}
    assert zk.get(PATH)[0] == NEW


def test_creations_are_sent_while_the_next_ones_are_awaited(
    nodes: MappingNodes, zk: ZooKeeperClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.placement.mapping.writes._SORTED_TOGETHER", 10)
    create(nodes, PATH, OLD)

    def coming() -> Iterator[tuple[str, bytes]]:
        yield from ((f"{PATH}-{number}", NEW) for number in range(10))
        eventually(lambda: bool(zk.exists(f"{PATH}-9")), "the first ten are there before there are more")
        yield f"{PATH}-10", NEW

    assert set(nodes.create(coming(), seen={CLIENT_GROUP_ID, FOLDER}).values()) == {Outcome.DONE}


def test_creations_that_share_a_fence_move_it_together(nodes: MappingNodes, zk: ZooKeeperClient) -> None:
    create(nodes, PATH, OLD)
    fences = sorted({fence_of(f"{PATH}-{number}") for number in range(200)})
    before = sum(zk.get(fence)[1].version for fence in fences)
    nodes.create([(f"{PATH}-{number}", NEW) for number in range(1000)], seen={CLIENT_GROUP_ID, FOLDER})
    assert sum(zk.get(fence)[1].version for fence in fences) - before <= len(fences) + 1000 // 100


def test_a_creation_that_zookeeper_would_not_take_costs_no_other(nodes: MappingNodes, zk: ZooKeeperClient) -> None:
    outcomes = nodes.create([(PATH, bytes(LARGEST_NODE_BYTES)), (f"{PATH}-1", OLD)], seen=())
    assert outcomes == {PATH: Outcome.TOO_LARGE, f"{PATH}-1": Outcome.DONE}
    assert not zk.exists(PATH)

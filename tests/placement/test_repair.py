"""The reconciler's plan, with a dict as ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.placement.mapping.nodes import (
    client_path,
    encode_host,
    encode_registration,
    is_kop_path,
    is_registration_path,
    kop_data,
    kop_path,
    registration_path,
)
from muster.placement.mapping.registration import Registration
from muster.placement.mapping.repair import Node, Plan, Planning, Suspect, plan
from tests.placement.strategies import GROUPS, OFFSETS_PARTITIONS, partition_of, registration, registrations

ALL = frozenset(range(OFFSETS_PARTITIONS))
NONE: frozenset[Suspect] = frozenset()


class Store:
    """Nodes with ZooKeeper's rules for versions, zxids and parents."""

    def __init__(self, nodes: Mapping[str, bytes]) -> None:
        self.zxid = 0
        self.nodes: dict[str, Node] = {}
        for path, data in nodes.items():
            self.create(path, data)

    def create(self, path: str, data: bytes) -> None:
        parent = path.rpartition("/")[0]
        if parent != "/client_group_id" and parent not in self.nodes:
            self.create(parent, b"")
        self.zxid += 1
        self.nodes.setdefault(path, Node(data, 0, self.zxid))

    def apply(self, todo: Plan) -> None:
        for create in todo.creates:
            self.create(create.path, create.data)
        for change in todo.sets:
            self.zxid += 1
            assert change.applies_to(self.nodes[change.path])
            self.nodes[change.path] = Node(change.data, change.version + 1, self.zxid)
        for removal in todo.removes:
            has_children = any(path.startswith(removal.path + "/") for path in self.nodes)
            if removal.applies_to(self.nodes[removal.path]) and not has_children:
                del self.nodes[removal.path]

    def rounds(self, wanted: Iterable[Registration], trusted: frozenset[int], count: int) -> Plan:
        wanted, suspects = list(wanted), NONE
        for _ in range(count):
            todo = make(wanted, self.nodes, trusted, suspects)
            self.apply(todo)
            suspects = todo.suspects
        return todo

    def data(self) -> dict[str, bytes]:
        return {path: node.data for path, node in self.nodes.items()}


def make(
    wanted: Iterable[Registration],
    seen: Mapping[str, Node],
    trusted: frozenset[int] = ALL,
    suspects: frozenset[Suspect] = NONE,
) -> Plan:
    return plan(by_partition(wanted, trusted), seen, suspects=suspects, partition_of=partition_of)


def by_partition(wanted: Iterable[Registration], trusted: frozenset[int]) -> dict[int, tuple[Registration, ...]]:
    wanted = list(wanted)
    return {each: tuple(one for one in wanted if one.offsets_partition == each) for each in trusted}


def as_nodes(some: Iterable[Registration]) -> dict[str, bytes]:
    """ZooKeeper's content for exactly these registrations."""
    one_each = {registration_path(one): one for one in some}
    nodes = {path: encode_registration(one) for path, one in one_each.items()}
    for one in one_each.values():
        client = (one.host, one.client_id)
        groups = {other.group for other in one_each.values() if (other.host, other.client_id) == client}
        nodes[client_path(*client)] = b""
        nodes[f"/client_group_id/{encode_host(one.host)}"] = b""
        if len(groups) == 1:
            nodes[kop_path(*client)] = kop_data(one.group)
    return nodes


def unique(some: Iterable[Registration]) -> list[Registration]:
    return list({registration_path(one): one for one in some}.values())


held = st.lists(registrations, max_size=8).map(unique)
garbage = st.dictionaries(
    st.sampled_from([registration_path(registration(group, "m-9")) for group in GROUPS])
    | st.builds(kop_path, st.sampled_from(["10.0.0.1", "10.0.0.9"]), st.sampled_from(["rdkafka", "a/b", None])),
    st.sampled_from([b"", b"{}", b"billing", b"archive", b"\xff"]),
    max_size=4,
)
trust = st.frozensets(st.sampled_from(sorted(ALL)))


@given(held, held, garbage)
def test_with_everything_trusted_zookeeper_becomes_what_is_wanted(
    wanted: list[Registration], before: list[Registration], debris: dict[str, bytes]
) -> None:
    store = Store(as_nodes(before) | debris)
    store.rounds(wanted, ALL, 2)
    assert {path: data for path, data in store.data().items() if is_registration_path(path) or is_kop_path(path)} == {
        path: data for path, data in as_nodes(wanted).items() if is_registration_path(path) or is_kop_path(path)
    }
    last = store.rounds(wanted, ALL, 8)
    assert last.empty
    assert store.data() == as_nodes(wanted)


@given(held, held, garbage, trust)
def test_what_is_of_an_untrusted_partition_is_never_touched(
    wanted: list[Registration], before: list[Registration], debris: dict[str, bytes], trusted: frozenset[int]
) -> None:
    store = Store(as_nodes(before) | debris)
    untrusted = {group for group in GROUPS if partition_of(group) not in trusted}
    foreign = {registration_path(one) for one in before if one.group in untrusted}
    foreign |= {
        path for path in store.nodes if is_kop_path(path) and store.nodes[path].data.decode("latin-1") in untrusted
    }
    kept = {path: store.nodes[path] for path in foreign if path in store.nodes}
    last = store.rounds(wanted, trusted, 8)
    assert last.empty
    assert {path: store.nodes.get(path) for path in kept} == kept
    for one in wanted:
        if one.group not in untrusted:
            assert store.nodes[registration_path(one)].data == encode_registration(one)
        elif registration_path(one) not in foreign | debris.keys():
            assert registration_path(one) not in store.nodes


@given(held, held, trust)
def test_a_plan_is_deterministic_ordered_and_says_each_path_once(
    wanted: list[Registration], before: list[Registration], trusted: frozenset[int]
) -> None:
    seen = Store(as_nodes(before)).nodes
    todo = make(wanted, seen, trusted)
    assert make(list(reversed(wanted)), dict(reversed(seen.items())), trusted) == todo
    paths = [each.path for each in todo.creates] + [each.path for each in todo.sets]
    paths += [each.path for each in todo.removes]
    assert len(paths) == len(set(paths))


def test_nothing_is_removed_in_the_first_round() -> None:
    store = Store(as_nodes([registration("billing")]))
    first = make([], store.nodes)
    assert not first.removes
    second = make([], store.nodes, suspects=first.suspects)
    assert {removal.path for removal in second.removes} == set(as_nodes([registration("billing")])) - {
        "/client_group_id/10.0.0.1",
        "/client_group_id/10.0.0.1/rdkafka",
    }


def test_a_node_that_was_written_again_is_not_the_suspect_of_before() -> None:
    store = Store(as_nodes([registration("billing")]))
    suspects = make([], store.nodes).suspects
    path = registration_path(registration("billing"))
    del store.nodes[path]
    store.create(path, encode_registration(registration("billing")))
    assert store.nodes[path].version == 0
    assert path not in {removal.path for removal in make([], store.nodes, suspects=suspects).removes}


def test_a_newer_update_in_zookeeper_is_overwritten_only_in_the_second_round() -> None:
    ours, newer = registration("billing", sequence=4), registration("billing", sequence=5)
    store = Store(as_nodes([newer]))
    first = make([ours], store.nodes)
    assert not first.sets
    second = make([ours], store.nodes, suspects=first.suspects)
    assert [change.data for change in second.sets] == [encode_registration(ours)]


def test_an_older_update_is_overwritten_at_once() -> None:
    store = Store(as_nodes([registration("billing", sequence=3)]))
    todo = make([registration("billing", sequence=4)], store.nodes)
    assert [change.path for change in todo.sets] == [registration_path(registration("billing"))]


def test_kops_node_is_only_where_one_group_is_the_candidate() -> None:
    alone = [registration("billing", "m-1"), registration("billing", "m-2")]
    flat = kop_path("10.0.0.1", "rdkafka")
    store = Store({})
    store.rounds(alone, ALL, 2)
    assert store.nodes[flat].data == b"billing"
    store.rounds([*alone, registration("dashboard")], ALL, 2)
    assert flat not in store.nodes
    store.rounds([registration("dashboard")], ALL, 2)
    assert store.nodes[flat].data == b"dashboard"


def test_kops_node_counts_the_candidates_of_untrusted_partitions_too() -> None:
    groups = ("billing", "dashboard")
    assert partition_of(groups[0]) != partition_of(groups[1])
    store = Store(as_nodes([registration(groups[1])]))
    del store.nodes[kop_path("10.0.0.1", "rdkafka")]
    store.rounds([registration(groups[0])], frozenset({partition_of(groups[0])}), 3)
    assert kop_path("10.0.0.1", "rdkafka") not in store.nodes


def test_a_coordinator_without_members_that_is_not_active_wipes_nothing() -> None:
    store = Store(as_nodes([registration(group) for group in GROUPS]))
    before = dict(store.nodes)
    assert store.rounds([], frozenset(), 5).empty
    assert store.nodes == before


def test_a_plan_is_whole_however_far_it_was_read_and_whatever_came_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that acts on it while it is made may fail in the middle; what it says of ZooKeeper is still true."""
    monkeypatch.setattr("muster.placement.mapping.repair._UNITS_TOGETHER", 1)
    everyone = [registration("billing", host=f"10.0.0.{number}") for number in range(4)]
    whole = make(everyone, {})
    calls = 0

    def failing_once(group: str) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError(group)
        return partition_of(group)

    parts = Planning(by_partition(everyone, ALL), {}, suspects=NONE, partition_of=failing_once)
    begun = next(iter(parts))
    assert begun
    assert set(begun) < set(whole.creates)
    with pytest.raises(RuntimeError):
        parts.plan()
    assert parts.plan() == whole

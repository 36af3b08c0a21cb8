"""An incremental plan equals a plan from scratch, whatever happened in between."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.placement.mapping import comparison
from muster.placement.mapping.nodes import is_registration_path, registration_path
from muster.placement.mapping.registration import Registration
from muster.placement.mapping.repair import NOTHING, Memory, Node, Plan, Planning, Suspect, plan
from tests.placement.strategies import GROUPS, OFFSETS_PARTITIONS, partition_of, registration, registrations
from tests.placement.test_repair import ALL, Store, as_nodes, by_partition, unique

PATHS = [
    "/client_group_id/10.0.0.1",
    "/client_group_id/10.0.0.9/rdkafka",
    "/client_group_id/10.0.0.1-rdkafka",
    "/client_group_id/10.0.0.1-rdkafka/debris",
    "/client_group_id/10.0.0.1/rdkafka/nothing",
    "/client_group_id/10.0.0.1/rdkafka/billing:m-1/below",
    "/client_group_id/a-b-c",
    "/client_group_id/a-b/c",
    registration_path(registration("dashboard")),
]
DATA = [b"", b"{}", b"billing", b"dashboard", b"\xff"]


class History:
    """Both sides, changed at random, and a plan after each change: incremental and from scratch."""

    def __init__(self) -> None:
        self.store = Store({})
        self.wanted: dict[str, Registration] = {}
        self.held: dict[int, tuple[Registration, ...]] = {}
        self.trusted = ALL
        self.memory = NOTHING
        self.suspects: frozenset[Suspect] = frozenset()

    def compare(self) -> Plan:
        fresh = by_partition(self.wanted.values(), self.trusted)
        # a coordinator without changes sends the same tuple; one with changes sends everything again
        self.held = {each: some if self.held.get(each) != some else self.held[each] for each, some in fresh.items()}
        seen = dict(self.store.nodes)
        todo = plan(self.held, seen, suspects=self.suspects, partition_of=partition_of, memory=self.memory)
        assert todo == plan(self.held, seen, suspects=self.suspects, partition_of=partition_of)
        parts = Planning(self.held, seen, suspects=self.suspects, partition_of=partition_of, memory=self.memory)
        read = [create for some in parts for create in some]
        assert (sorted(read, key=lambda one: one.path), parts.plan()) == (list(todo.creates), todo)
        self.memory, self.suspects = todo.memory, todo.suspects
        return todo

    def step(self, draw: st.DrawFn) -> None:
        match draw(st.integers(0, 6)):
            case 0:
                one = draw(registrations)
                self.wanted[registration_path(one)] = one
            case 1 if self.wanted:
                del self.wanted[draw(st.sampled_from(sorted(self.wanted)))]
            case 2:
                self.trusted = draw(st.frozensets(st.sampled_from(sorted(ALL))) | st.just(ALL))
            case 3:
                self._write(draw(st.sampled_from(PATHS)), draw(st.sampled_from(DATA)))
            case 4 if self.store.nodes:
                path = draw(st.sampled_from(sorted(self.store.nodes)))
                gone = [each for each in self.store.nodes if each == path or each.startswith(path + "/")]
                for each in gone:
                    del self.store.nodes[each]
            case 5:
                self.store.apply(self.compare())
            case 6:
                one = draw(registrations)
                data = as_nodes([one])[registration_path(one)]
                self._write(registration_path(one), data)
        self.compare()

    def _write(self, path: str, data: bytes) -> None:
        node = self.store.nodes.get(path)
        if node is None:
            self.store.create(path, data)
        else:
            self.store.zxid += 1
            self.store.nodes[path] = Node(data, node.version + 1, self.store.zxid)


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History()
    for _ in range(draw(st.integers(1, 12))):
        history.step(draw)
    return history


@settings(max_examples=200)
@given(histories())
def test_it_is_the_plan_that_looks_at_everything(history: History) -> None:
    """And from any start, it reaches the desired state."""
    history.trusted = ALL
    for _ in range(8):
        history.store.apply(history.compare())
    wanted = unique(history.wanted.values())
    mine = {path: data for path, data in history.store.data().items() if is_registration_path(path)}
    for one in wanted:
        assert mine[registration_path(one)] == as_nodes([one])[registration_path(one)]


def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the units that are examined from now on."""
    units: list[str] = []
    real = comparison._judged

    def noting(unit: str, compared: Memory, of: object) -> object:
        units.append(unit)
        return real(unit, compared, partition_of)

    monkeypatch.setattr(comparison, "_judged", noting)
    return units


def test_only_clients_with_news_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    everyone = [registration(group, host=f"10.0.0.{number}") for number in range(8) for group in GROUPS[:3]]
    store = Store(as_nodes(everyone))
    held, seen = by_partition(everyone, ALL), dict(store.nodes)
    memory = plan(held, seen, suspects=frozenset(), partition_of=partition_of).memory
    units = judged(monkeypatch)

    again = plan(dict(held), seen, suspects=frozenset(), partition_of=partition_of, memory=memory)
    assert (again.empty, units) == (True, [])

    copied = {each: tuple(one._replace() for one in some) for each, some in held.items()}
    again = plan(copied, dict(seen), suspects=frozenset(), partition_of=partition_of, memory=again.memory)
    assert (again.empty, units) == (True, [])

    path = registration_path(registration("billing", host="10.0.0.3"))
    seen = seen | {path: Node(b"wrong", 1, 10_000)}
    again = plan(copied, seen, suspects=frozenset(), partition_of=partition_of, memory=again.memory)
    assert [change.path for change in again.sets] == [path]
    assert units == ["10.0.0.3/rdkafka"]

    units.clear()
    lost = partition_of("dashboard")
    untrusted = {each: some for each, some in copied.items() if each != lost}
    again = plan(untrusted, seen, suspects=frozenset(), partition_of=partition_of, memory=again.memory)
    assert {one.path for one in again.left_alone} >= {
        registration_path(one) for one in everyone if one.offsets_partition == lost
    }
    assert set(units) == {f"10.0.0.{number}/rdkafka" for number in range(8)}
    assert lost < OFFSETS_PARTITIONS

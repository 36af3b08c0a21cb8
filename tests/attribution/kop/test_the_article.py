"""The incident at vivo (July 2025), replayed: a rolling upgrade lost the group of a topic's consumption.

The setup: brokers A, B and C. A client ``app`` of group ``orders`` consumes partition 0 on A, 1 on B and 2 on C; the
group's coordinator is on B. The client looks it up at A, as it may at any broker, so A writes the node of the client
for KoP. Everything below follows from which broker wrote the node and which one deletes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.attribution.kop.kop_rule import MemoryStore
from tests.attribution.kop.rules import Kop, SchemeOne, SchemeThree, SchemeTwo
from tests.attribution.kop.world import SESSION_MS, Connection, Member, World

Worlds = Callable[..., World]
GROUP = "orders"


class Cached(MemoryStore):
    """A broker's view of the nodes through a cache that keeps what it has read (vivo's: for five minutes)."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store
        self._read: dict[str, bytes | None] = {}

    def put(self, path: str, data: bytes) -> None:
        self._store.put(path, data)

    def get(self, path: str) -> bytes | None:
        if path not in self._read:
            self._read[path] = self._store.get(path)
        return self._read[path]

    def delete(self, path: str) -> None:
        self._store.delete(path)


@dataclass
class Client:
    """The consumer: a connection for look-ups, one to its coordinator, and one to each broker for Fetch."""

    world: World
    bootstrap: str = "A"
    fetches: dict[str, Connection] = field(default_factory=dict)

    def start(self) -> Client:
        self.look_up = self.world.connect(self.bootstrap)
        self.world.find(self.look_up, GROUP)
        self.coordinator = self.world.connect(self.world.coordinator_on)
        self.member: Member = self.world.join(self.coordinator, GROUP, 0, 1, 2)
        return self

    def fetch(self, partition: int, *, on: str) -> dict[str, str]:
        """Fetch from that broker, over the existing connection or a new one; the label by rule."""
        if self.fetches.get(on) not in self.world.open:
            self.fetches[on] = self.world.connect(on)
        fetched = self.world.fetch(self.fetches[on], partition)
        return {rule.name: fetched[rule.name] for rule in self.world.rules}

    def consume(self) -> list[dict[str, str]]:
        return [self.fetch(partition, on=broker) for partition, broker in enumerate("ABC")]


def vivo_kop(world_of: Worlds) -> World:
    """KoP as in the experiment: no cache in front of ZooKeeper (condition 2)."""
    return world_of(Kop(caches=False))


def test_kop_loses_the_label_when_the_broker_that_received_the_look_up_restarts(world_of: Worlds) -> None:
    world = vivo_kop(world_of)
    client = Client(world).start()  # 1: a group on three brokers. 3: the look-up went to A, which named B
    assert client.consume() == [{"kop": GROUP, "ours": GROUP}] * 3
    world.restart("A")  # 4: A's closing connections delete the node; the client looks up nothing, it knows B
    assert client.fetch(0, on="C") == {"kop": "", "ours": GROUP}  # 5: A's partition moved to C
    world.restart("C")
    assert client.fetch(0, on="A") == {"kop": "", "ours": GROUP}, "and restarting C moves the hole to A"


def test_with_kops_own_cache_the_hole_opens_with_the_first_new_connection(world_of: Worlds) -> None:
    """KoP's map per connection has no expiry: a connection that has read the group keeps it. A later one to C reads
    nothing, and keeps that."""
    world = world_of(Kop())
    client = Client(world).start()
    client.consume()
    world.restart("A")
    assert client.fetch(0, on="C") == {"kop": GROUP, "ours": GROUP}
    world.close(client.fetches["C"])
    assert client.fetch(0, on="C") == {"kop": "", "ours": GROUP}
    world.find(world.connect("B"), GROUP)
    assert client.fetch(0, on="C") == {"kop": "", "ours": GROUP}, "the node is there again, and is not read"


def test_a_cache_in_front_of_zookeeper_hides_it(world_of: Worlds) -> None:
    """Condition 2: C has read the node before."""
    store = MemoryStore()
    caches = {broker: Cached(store) for broker in "ABC"}
    world = world_of(Kop(caches=False, store_of=caches.__getitem__))
    client = Client(world).start()
    client.consume()
    world.restart("A")
    assert client.fetch(0, on="C") == {"kop": GROUP, "ours": GROUP}


def test_it_takes_a_broker_that_is_not_the_coordinator(world_of: Worlds) -> None:
    """Conditions 3 and 4: if the look-up went to B itself, the restart of A deletes nothing; after a restart of B the
    client must look up its coordinator, which writes the node again."""
    world = vivo_kop(world_of)
    client = Client(world, bootstrap="B").start()
    world.restart("A")
    assert client.fetch(0, on="C") == {"kop": GROUP, "ours": GROUP}
    world.restart("B")
    world.find(world.connect("C"), GROUP)
    assert client.fetch(1, on="C") == {"kop": GROUP, "ours": GROUP}


def test_scheme_one_a_client_that_reconnects_never_joins_again(world_of: Worlds) -> None:
    """Written at JoinGroup, deleted when the connection to the coordinator closes: it survives A, but not a mere
    reconnect, after which the client continues with heartbeats."""
    world = world_of(SchemeOne())
    client = Client(world).start()
    world.restart("A")
    assert client.fetch(0, on="C") == {"scheme 1": GROUP, "ours": GROUP}
    world.close(client.coordinator)
    client.member.connection = world.connect("B")
    world.wait(3 * SESSION_MS)
    assert client.fetch(0, on="C") == {"scheme 1": "", "ours": GROUP}


@pytest.mark.parametrize("shutdown_flag", [False, True])
def test_scheme_two_a_broker_that_stops_expires_its_members(world_of: Worlds, shutdown_flag: bool) -> None:
    """Written at FindCoordinator, deleted in removeMember. B stops: the coordinator moves to C, the client looks it up
    and registers again, and then B expires the members that it still has. With the flag, B deletes nothing then."""
    world = world_of(SchemeTwo(shutdown_flag=shutdown_flag))
    client = Client(world).start()
    world.close(client.coordinator)
    on_b = world.move_coordinator("C")
    world.find(world.connect("C"), GROUP)
    client.member.connection = world.connect("C")
    world.beat()
    assert client.fetch(2, on="C") == {"scheme 2": GROUP, "ours": GROUP}
    assert world.late_expiry(on_b, "B", stopping=True) == 1
    world.wait(2 * SESSION_MS)
    assert client.fetch(2, on="C") == {"scheme 2": GROUP if shutdown_flag else "", "ours": GROUP}


def long_pause(world: World) -> Client:
    """Pause the client for longer than its session.

    Its own time-out comes first: it looks up the coordinator again (the partition has moved to C in between) and is a
    member there; then B, which noticed late, expires the old member. Writer and deleter are two processes, and no lock
    orders them.
    """
    client = Client(world).start()
    client.member.paused = True
    on_b = world.move_coordinator("C")
    world.wait(SESSION_MS - 5_000)
    world.find(world.connect("C"), GROUP)
    client.member.paused = False
    client.member.connection = world.connect("C")
    world.rebalance(GROUP)
    assert world.late_expiry(on_b, "B") == 1
    world.wait(2 * SESSION_MS)
    return client


def test_scheme_two_the_late_expiry_of_the_old_broker_deletes_the_new_node(world_of: Worlds) -> None:
    world = world_of(SchemeTwo())
    client = long_pause(world)
    assert client.fetch(2, on="C") == {"scheme 2": "", "ours": GROUP}, "and it is never written again"


def test_scheme_three_writes_back_what_is_missing(world_of: Worlds) -> None:
    """Scheme 2 and a periodic check. It has worked since; until the next check the label is lost."""
    world = world_of(SchemeThree())
    client = long_pause(world)
    assert client.fetch(2, on="C") == {"scheme 3": "", "ours": GROUP}
    world.check()
    assert client.fetch(2, on="C") == {"scheme 3": GROUP, "ours": GROUP}


def test_scheme_three_never_repairs_what_is_wrong(world_of: Worlds) -> None:
    """F21: it looks for missing nodes. A node with another group's name exists, so it stays; and a check that reads
    while another name is there corrects nothing."""
    scheme = SchemeThree()
    world = world_of(scheme)
    client = Client(world).start()
    world.find(world.connect("A"), "of-an-exporter")
    world.check()
    world.check()
    assert client.fetch(0, on="A") == {"scheme 3": "of-an-exporter", "ours": GROUP}


def test_nothing_of_a_connection_matters_to_ours(world_of: Worlds) -> None:
    """Everything above that lost a label, one after the other, with every broker in turn."""
    world = world_of(Kop(caches=False))
    client = Client(world).start()
    for broker in "ABCABC":
        world.restart(broker)
        client.member.connection = world.connect("B")
        assert {labels["ours"] for labels in client.consume()} == {GROUP}
    for broker in "CAB":
        before = world.move_coordinator(broker)
        world.late_expiry(before, "B")
        world.close(*list(world.open))
        client.member.connection = world.connect(broker)
        world.beat()
        assert {labels["ours"] for labels in client.consume()} == {GROUP}

"""Identity: F4 to F10, F15, F17, F22 and F23. KoP's key takes several clients for one, or one for several."""

from __future__ import annotations

import pytest

from muster.placement.mapping.nodes import is_registration_path, kop_path, registration_path
from tests.attribution.kop.kop_rule import ROOT, MemoryStore
from tests.attribution.kop.rules import Kop, Ours
from tests.attribution.kop.world import Connection, World

SETTLED_MS = 10_000
DEFAULT_IDS = {
    "librdkafka": "rdkafka",
    "sarama": "sarama",
    "franz-go": "kgo",
    "kafkajs": "kafkajs",
    "kafka-python": "kafka-python-2.2.15",
    "aiokafka": "aiokafka-0.12.0",
    "older Java": "consumer-1",
}


def consumer(world: World, group: str, *partitions: int, client_id: str | None = "app", **where: str) -> Connection:
    """Return the connection to C of a consumer of the group with these partitions, which looked it up at A."""
    world.find(world.connect("A", client_id, **where), group)
    world.join(world.connect("B", client_id, **where), group, *partitions)
    return world.connect("C", client_id, **where)


def test_f04_two_groups_with_one_client_id_on_one_host(world: World) -> None:
    """The put is unconditional: new connections of both groups read the later one."""
    billing = consumer(world, "billing", 0)
    audit = consumer(world, "audit", 1)
    fetched = world.fetch(billing, 0), world.fetch(audit, 1)
    assert [one.kop for one in fetched] == ["audit", "audit"]
    assert [one.ours for one in fetched] == ["billing", "audit"]


def test_f04_what_else_a_connection_fetches_identifies_its_group(world: World, ours: Ours) -> None:
    """Both groups own partition 0, and each one more. KoP's label is the later group's."""
    billing = consumer(world, "billing", 0, 1)
    audit = consumer(world, "audit", 0, 2)
    fetched = world.fetch(billing, 0, beside=(1,)), world.fetch(audit, 0, beside=(2,))
    world.wait(SETTLED_MS)
    assert [one.kop for one in fetched] == ["audit", "audit"]
    assert [one.ours for one in fetched] == ["billing", "audit"]
    assert ours.evidence("C") == "session"


def test_f04_the_offset_where_a_connection_begins_identifies_its_group(world: World, ours: Ours) -> None:
    """Both groups own the same partition, and have committed different offsets."""
    for group, offset in (("billing", 100), ("audit", 500)):
        world.commit(world.connect("B", "reset tool"), group, 0, offset)
    billing = consumer(world, "billing", 0)
    audit = consumer(world, "audit", 0)
    for group in ("billing", "audit"):
        world.offset_fetch(world.connect("B"), group, 0)
    fetched = world.fetch(billing, 0, offset=100), world.fetch(audit, 0, offset=500)
    world.wait(SETTLED_MS)
    assert [one.kop for one in fetched] == ["audit", "audit"]
    assert [one.ours for one in fetched] == ["billing", "audit"]
    assert ours.evidence("C") == "offset_continuity"


def test_f04_where_nothing_distinguishes_them_each_group_gets_one_stream(world: World, ours: Ours) -> None:
    """Two groups fetch one partition from one offset: the labels may be swapped, but never both of one group."""
    connections = consumer(world, "billing", 0), consumer(world, "audit", 0)
    fetched = []
    for _ in range(40):
        fetched += [world.fetch(connection) for connection in connections]
        world.wait(1_000)
    assert {one.kop for one in fetched} == {"audit"}
    assert sorted(one.ours for one in fetched) == ["audit"] * 40 + ["billing"] * 40
    assert len({one.ours for one in fetched[::2]}) == 1
    assert ours.evidence("C") == "one_to_one"


@pytest.mark.parametrize("client_id", DEFAULT_IDS.values(), ids=DEFAULT_IDS.keys())
def test_f05_default_client_ids_are_everybodys(world: World, client_id: str) -> None:
    """With a library's default id F4 is the normal case of a node that runs several services."""
    services = {f"service-{number}": number for number in range(5)}
    connections = {group: consumer(world, group, place, client_id=client_id) for group, place in services.items()}
    fetched = {group: world.fetch(connections[group], place) for group, place in services.items()}
    assert {one.kop for one in fetched.values()} == {"service-4"}
    assert {group: one.ours for group, one in fetched.items()} == {group: group for group in services}


def test_f06_many_hosts_behind_one_address(world: World) -> None:
    """NAT, kube-proxy, a balancer: KoP sees one host, so F4 applies to the whole cluster."""
    pods = [consumer(world, f"of-pod-{number}", number, host="192.0.2.1") for number in range(10)]
    fetched = [world.fetch(connection, number) for number, connection in enumerate(pods)]
    assert {one.kop for one in fetched} == {"of-pod-9"}
    assert [one.ours for one in fetched] == [f"of-pod-{number}" for number in range(10)]


def test_f07_ipv6_addresses_are_cut_at_their_first_colon(world: World) -> None:
    """All of 2001::/16 is one key. The two groups own the same partition, so only the address distinguishes them."""
    here = consumer(world, "here", 0, host="2001:db8::1")
    there = consumer(world, "there", 0, host="2001:4860::2")
    fetched = world.fetch(here, 0), world.fetch(there, 0)
    assert [one.kop for one in fetched] == ["there", "there"]
    assert [one.ours for one in fetched] == ["here", "there"]


def test_f07_an_address_has_one_name(world: World) -> None:
    """IPv4-mapped IPv6 is IPv4 (Java folds it too); a zone id is not part of the client."""
    world.join(world.connect("B", host="::ffff:10.0.0.1"), "mapped", 0)
    world.join(world.connect("B", host="fe80::1%eth0"), "zoned", 0)
    assert world.fetch(world.connect("C", host="10.0.0.1")).ours == "mapped"
    assert world.fetch(world.connect("C", host="fe80::1%eth1")).ours == "zoned"


def test_f08_an_address_that_was_resolved_to_a_name(world: World, kop: Kop) -> None:
    """The socket of ``worker-7`` prints as ``worker-7/10.0.0.1:port``: another key, and a node inside a node."""
    world.find(world.connect("A", name="worker-7"), "g")
    world.join(world.connect("B", name="worker-7"), "g", 0)
    fetched = world.fetch(world.connect("C"))
    assert fetched.kop == ""
    assert f"{ROOT}/worker-7/10.0.0.1-app" in kop.store.nodes
    assert fetched.ours == "g"


@pytest.mark.parametrize("client_id", ["a/", "a//b", "..", "/../a", "a/.", "a\nb", "\x00", "a\x7f", "\ue000"])
def test_f09_client_ids_that_make_no_node(world: World, ours: Ours, client_id: str) -> None:
    fetched = world.fetch(consumer(world, "g", 0, client_id=client_id))
    assert fetched.kop == ("g" if client_id == ".." else "")
    assert fetched.ours == "g"
    (registration,) = world.registrations()
    zookeeper = MemoryStore()
    zookeeper.put(registration_path(registration), b"")
    zookeeper.put(kop_path(registration.host, client_id), b"")
    assert is_registration_path(registration_path(registration))
    assert ours.evidence("C") == "unique_candidate"


def test_f09_a_slash_makes_nodes_that_are_never_removed(world: World, kop: Kop, ours: Ours) -> None:
    """KoP deletes the leaf; its parent stays, and a listing shows a client that never was. Muster leaves nothing."""
    look_up = world.connect("A", "a/b")
    world.find(look_up, "g")
    member = world.join(world.connect("B", "a/b"), "g", 0)
    ours.mapping.sweep(world.registrations())
    assert ours.mapping.registered() == {f"g:{member.id.replace('/', '%2F')}"}
    world.close(look_up)
    world.leave(member)
    ours.mapping.sweep(world.registrations(), rounds=6)
    assert f"{ROOT}/10.0.0.1-a" in kop.store.nodes
    assert ours.mapping.nodes == {}


def test_f09_a_hyphen_does_not_part_host_and_client_id(world: World, kop: Kop) -> None:
    """``a`` with ``b-c`` and ``a-b`` with ``c`` are one node for KoP, once hosts have names."""
    world.find(world.connect("A", "b-c", name="a"), "one")
    one = world.connect("C", "b-c", name="a")
    assert kop_path("a", "b-c") != kop_path("a-b", "c")
    assert {path for path in kop.store.nodes if "-" in path} == {f"{ROOT}/a/{one.host}-b-c"}


def test_f10_a_look_up_without_client_id_hangs(world: World) -> None:
    """Null is legal on the wire; KoP's set of client ids throws, and the response is never completed. test_rows_served
    shows that Muster's gateway answers."""
    look_up = world.connect("A", None)
    assert world.find(look_up, "g") == {"kop": False, "ours": True}
    world.join(world.connect("B", None), "null", 0)
    world.join(world.connect("B", ""), "empty", 0)
    fetched = world.fetch(world.connect("C", None)), world.fetch(world.connect("C", ""))
    assert [one.kop for one in fetched] == ["", ""]
    assert [one.ours for one in fetched] == ["null", "empty"]


def test_f15_several_client_ids_over_one_connection(world: World) -> None:
    """A proxy or bridge: KoP's cache has one result per connection, whichever client sends the next request."""
    consumer(world, "one", 0, client_id="first")
    consumer(world, "two", 0, client_id="second")
    proxy = world.connect("C")
    fetched = world.fetch(proxy, client_id="first"), world.fetch(proxy, client_id="second")
    assert [one.kop for one in fetched] == ["one", "one"]
    assert [one.ours for one in fetched] == ["one", "two"]


def test_f17_a_client_with_two_addresses(world: World, ours: Ours) -> None:
    """The coordinator is reached over IPv4 and the data over IPv6: no key with an address finds the group. Muster looks
    at the other family when the bytes have waited, and attributes them if only one member is possible."""
    world.find(world.connect("A", host="10.0.0.1"), "g")
    world.join(world.connect("B", host="10.0.0.1"), "g", 0)
    fetched = world.fetch(world.connect("C", host="2001:db8::1"))
    assert (fetched.kop, fetched.ours) == ("", "(pending)")
    world.wait(60_000)
    assert (fetched.ours, ours.evidence("C")) == ("g", "assignment")


def test_f17_two_clients_that_may_be_meant(world: World) -> None:
    for number, group in enumerate(("here", "there"), start=1):
        world.join(world.connect("B", host=f"10.0.0.{number}"), group, 0)
    fetched = world.fetch(world.connect("C", host="2001:db8::1"))
    world.wait(60_000)
    assert fetched.ours == "(no_group)"


def test_f22_two_tenants_in_one_place(world: World) -> None:
    """Groups are per tenant in KoP, and its path has no tenant: a tenant sees its bytes under another's group, whose
    name it should not even know. The principal is part of Muster's key."""
    mine = consumer(world, "mine", 0, principal="User:tenant-1")
    consumer(world, "theirs", 0, principal="User:tenant-2")
    fetched = world.fetch(mine)
    assert (fetched.kop, fetched.ours) == ("theirs", "mine")


def test_f23_a_stranger_with_our_address_and_client_id(world: World) -> None:
    """Any client that looks up a group relabels KoP's neighbours: no permission is checked, and the last one wins. In
    Muster that takes a member, and even then only bytes of its own principal can get its group's label."""
    victim = consumer(world, "victims", 0, principal="User:victim")
    world.find(world.connect("B", principal="User:mallory"), "premium")
    first = world.fetch(victim)
    assert (first.kop, first.ours) == ("premium", "victims")
    world.join(world.connect("B", principal="User:mallory"), "mallorys", 0)
    world.rebalance("victims")
    assert world.fetch(world.connect("A", principal="User:victim")).ours == "victims"


def test_f23_without_authentication_a_stranger_can_take_a_label_away_and_not_give_one(world: World) -> None:
    """Every client is User:ANONYMOUS: a client that claims the same partitions makes new connections uncertain."""
    consumer(world, "victims", 0)
    world.join(world.connect("B"), "mallorys", 0)
    assert world.fetch(world.connect("C")).ours != "mallorys"

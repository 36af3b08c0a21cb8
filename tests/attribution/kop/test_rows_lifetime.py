"""When a label begins and ends: F1 to F3, F11, F12, F14, F16, F19 to F21, F25 and F29 to F31."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.actors.group.types import Phase
from muster.placement.mapping.repair import Node
from tests.attribution.kop.counting import KopCounters
from tests.attribution.kop.kop_rule import ROOT, node_path
from tests.attribution.kop.rules import Kop, Ours, SchemeThree
from tests.attribution.kop.world import SESSION_MS, TOPIC, Connection, Member, World
from tests.group.driver import join

Worlds = Callable[..., World]
GRACE_MS = 30_000
PENDING_MS = 60_000


def consumer(world: World, *partitions: int, group: str = "g", bootstrap: str = "A") -> tuple[Connection, Member]:
    """Return the connection of a consumer that sent its look-up to that broker, and the member.

    Its coordinator is on B.
    """
    look_up = world.connect(bootstrap)
    world.find(look_up, group)
    return look_up, world.join(world.connect("B"), group, *partitions)


def test_f01_the_broker_that_received_the_look_up_restarts_and_the_partition_moves(world: World) -> None:
    """vivo's case: the close deletes the node, and no client has a reason to write it again."""
    consumer(world, 0)
    assert world.fetch(world.connect("A")).kop == "g"
    world.restart("A")
    fetched = world.fetch(world.connect("C"))
    assert (fetched.kop, fetched.ours) == ("", "g")


def test_f02_the_connection_of_the_look_up_goes_idle(world: World) -> None:
    """Java closes it after nine minutes; this needs no failure, and the group stays healthy."""
    look_up, _ = consumer(world, 0)
    world.wait(9 * 60_000)
    world.close(look_up)
    fetched = world.fetch(world.connect("C"))
    assert (fetched.kop, fetched.ours) == ("", "g")


def test_f03_a_late_delete_takes_the_newer_node(world: World, ours: Ours) -> None:
    """A notices late that the client has reconnected: its close deletes what B wrote in between."""
    look_up, member = consumer(world, 0)
    world.find(world.connect("B"), "g")
    world.close(look_up)
    fetched = world.fetch(world.connect("C"))
    assert (fetched.kop, fetched.ours) == ("", "g")

    before = world.move_coordinator("C")
    world.beat()
    assert world.late_expiry(before, "B") == 1
    world.wait(GRACE_MS + 1)
    assert world.fetch(world.connect("C")).ours == "g", "the old coordinator's word is of an older epoch"
    ours.mapping.sweep(world.registrations(), rounds=1)
    assert ours.mapping.planned(world.registrations()).empty
    assert ours.mapping.registered() == {f"g:{member.id}"}


def test_f03_a_removal_that_comes_late_misses_the_node_that_was_created_again(world: World, ours: Ours) -> None:
    """A recreated node has version 0 again, so the version alone is not sufficient: the plan names the write."""
    _, member = consumer(world, 0)
    stated = world.registrations()
    ours.mapping.sweep(stated)
    ours.mapping.sweep([], rounds=1)
    removal = ours.mapping.planned([])
    (path,) = (path for path in ours.mapping.nodes if path.count("/") == 4)
    assert path in {remove.path for remove in removal.removes}
    del ours.mapping.nodes[path]
    ours.mapping.sweep(stated, rounds=1)
    assert ours.mapping.nodes[path].version == 0
    ours.mapping.carry_out(removal)
    assert ours.mapping.registered() == {f"g:{member.id}"}


def test_f11_admin_look_ups_are_for_other_peoples_groups(world: World, kop: Kop) -> None:
    """An exporter next to the consumer, with the same default id, describes every group: FindCoordinator v4 has many
    groups, each is written to the same node, and the exporter's close deletes that node."""
    consumer(world, 0)
    exporter = world.connect("B")
    world.find(exporter, "a", "b", "c")
    connection = world.connect("C")
    fetched = world.fetch(connection)
    assert (fetched.kop, fetched.ours) == ("c", "g")
    world.close(connection)
    world.close(exporter)
    fetched = world.fetch(world.connect("C"))
    assert (fetched.kop, fetched.ours) == ("", "g")


def test_f12_a_consumer_that_assigns_and_commits_is_no_member(world_of: Worlds) -> None:
    """KoP knows it if it looked up a coordinator, and loses it as in F1; scheme 3 iterates over members, so it repairs
    nothing. Muster knows it from its commits."""
    world = world_of(Kop(), SchemeThree())
    look_up = world.connect("A")
    world.find(look_up, "g")
    commits, data = world.connect("B"), world.connect("C")
    world.restart("A")
    world.check()
    fetched = world.fetch(data)
    assert (fetched["kop"], fetched.ours) == ("", "(pending)")
    world.commit(commits, "g", 0, 10)
    assert fetched.ours == "g"
    stranger, data = world.connect("B", "another"), world.connect("C", "another")
    fetched = world.fetch(data, 1)
    world.commit(stranger, "g", 1, 5)
    world.check()
    assert (fetched["kop"], fetched["scheme 3"], fetched.ours) == ("", "", "g")


def test_f12_the_next_program_with_its_client_id_is_another_one(world: World) -> None:
    """It reads the same, and no group; what the consumer had committed before does not show who it is."""
    commits, data = world.connect("B"), world.connect("C")
    fetched = world.fetch(data)
    world.commit(commits, "g", 0, 10)
    world.close(commits, data)
    world.wait(40_000)
    of_another = world.fetch(world.connect("C"))
    world.wait(PENDING_MS)
    assert (fetched.ours, of_another.ours) == ("g", "(no_group)")


def test_f11_an_offset_fetch_for_another_group_is_no_evidence(world: World) -> None:
    world.offset_fetch(world.connect("B"), "g", 0)
    assert world.registrations() == ()


def test_f14_a_fetch_before_the_mapping(world: World) -> None:
    """KoP keeps the first result for the life of the connection. Muster settles what was pending."""
    early = world.connect("C")
    first = world.fetch(early)
    assert (first.kop, first.ours) == ("", "(pending)")
    consumer(world, 0)
    second = world.fetch(early)
    assert (first.kop, second.kop) == ("", "")
    assert (first.ours, second.ours) == ("g", "g")


def test_f14_a_hiccup_of_zookeeper(world: World, kop: Kop) -> None:
    consumer(world, 0)
    connection = world.connect("C")
    kop.store.available = False
    world.fetch(connection)
    kop.store.available = True
    world.wait(3_600_000)
    fetched = world.fetch(connection)
    assert (fetched.kop, fetched.ours) == ("", "g")


def test_f16_a_process_with_another_group_in_the_same_place(world: World) -> None:
    """For KoP the old fetch connection keeps the old label, whichever client uses it now (a proxy holds them). Muster
    never assigns the old group: none while both are possible, and the new one after the grace time."""
    _, member = consumer(world, 0, group="old")
    connection = world.connect("C")
    assert world.fetch(connection).kop == "old"
    world.leave(member)
    world.wait(GRACE_MS)
    consumer(world, 0, group="new")
    reconnected = world.connect("C")
    world.wait(1)
    fetched = world.fetch(reconnected)
    assert (fetched.kop, fetched.ours) == ("new", "new")
    world.close(reconnected)
    fetched = world.fetch(connection)
    world.wait(5_000)  # it had fetched before that group started
    assert (fetched.kop, fetched.ours) == ("old", "new")


def test_f19_a_broker_that_is_killed_deletes_nothing(world: World, ours: Ours) -> None:
    """The nodes are persistent: a later client there is taken for the dead one. In Muster the session ends."""
    _, member = consumer(world, 0)
    ours.mapping.sweep(world.registrations())
    world.kill("A")
    world.vanish(member)
    world.wait(SESSION_MS + GRACE_MS + 1)
    fetched = world.fetch(world.connect("C"))
    world.wait(PENDING_MS)
    assert (fetched.kop, fetched.ours) == ("g", "(no_group)")
    ours.mapping.sweep(world.registrations(), rounds=6)
    assert ours.mapping.nodes == {}


def test_f20_an_address_that_is_used_again(world: World) -> None:
    """A pod's address and a default client id, and another group: KoP uses the dead client's label until the new
    process looks up a coordinator, and on earlier connections even after that."""
    _, member = consumer(world, 0, group="dead")
    world.kill("A")
    world.vanish(member)
    world.wait(SESSION_MS + GRACE_MS + 1)
    early = world.connect("C")
    first = world.fetch(early)
    consumer(world, 0, group="alive")
    second = world.fetch(early)
    assert [first.kop, second.kop] == ["dead", "dead"]
    assert [first.ours, second.ours] == ["alive", "alive"]


def test_f21_what_is_wrong_or_stale_is_repaired_too(ours: Ours) -> None:
    """Scheme 3 writes what is missing. Muster's plan is a difference both ways, after two rounds that agree."""
    scheme = SchemeThree()
    world = World((scheme, ours))
    look_up, member = consumer(world, 0)
    node = node_path(look_up.address, "app")
    stale = node_path(world.connect("A", host="10.0.0.9").address, "app")
    scheme.store.put(node, b"wrong")
    scheme.store.put(stale, b"of-nobody")
    ours.mapping.sweep(world.registrations())
    (path,) = (path for path in ours.mapping.nodes if path.count("/") == 4)
    right = ours.mapping.nodes[path].data
    ours.mapping.write(path, b"wrong")
    ours.mapping.write(node, b"wrong")
    ours.mapping.write(stale, b"of-nobody")
    for _ in range(3):
        world.check()
        ours.mapping.sweep(world.registrations(), rounds=1)
    assert (scheme.store.get(node), scheme.store.get(stale)) == (b"wrong", b"of-nobody")
    assert ours.mapping.nodes[path].data == right
    assert ours.mapping.kop_label("10.0.0.1", "app") == "g"
    assert ours.mapping.kop_label("10.0.0.9", "app") is None
    assert ours.mapping.registered() == {f"g:{member.id}"}


def test_f25_series_go_with_their_group(world: World, ours: Ours) -> None:
    """KoP's counters stay on every broker that ever served the partition (``rotateLatencyCollectionAndExpire`` rotates
    summaries only). In Muster, the series of a removed group is removed after a while, and the account still
    balances."""
    _, member = consumer(world, 0)
    world.fetch(world.connect("C"))
    account = ours.accounts["C"]
    kop = KopCounters()
    kop.read((TOPIC, 0), TOPIC, "g", account.snapshot().sent[TOPIC, 0].bytes)
    assert [series[0] for series in account.snapshot().groups] == ["g"]
    world.wait(3_600_000)
    assert [series[0] for series in account.snapshot().groups] == ["g"], "a quiet group is not gone"
    world.leave(member)
    world.wait(3_600_000)
    books = account.snapshot()
    assert books.groups == {}
    assert books.removed[TOPIC, 0].bytes == books.sent[TOPIC, 0].bytes > 0
    assert kop.scraped() == {(TOPIC, "g"): books.sent[TOPIC, 0].bytes}, "KoP has nothing that takes it away"
    ours.check()


def test_f29_a_ghost_is_no_member(world: World) -> None:
    """KoP's coordinator has no KIP-394: a client that joined, timed out and joined again is two members, and scheme 3
    writes a node for each. In Muster, the first JoinGroup gets an id and registers no member."""
    scheme = SchemeThree()
    for _ in range(3):
        ghost = world.driver.exchange(join("", group="ghosts"), client="app", host="10.0.0.1")
        scheme.checked([Member(group="ghosts", connection=world.connect("B"), id=ghost.member_id)])
    assert scheme.store.get(f"{ROOT}/10.0.0.1-app") == b"ghosts"
    assert world.registrations() == ()
    fetched = world.fetch(world.connect("C"))
    world.wait(PENDING_MS)
    assert fetched.ours == "(no_group)"


def test_f29_who_never_synced_owns_nothing_for_certain(world: World) -> None:
    """Two groups, one of which has joined and never synced: it may own anything, so it only reduces certainty."""
    consumer(world, 0)
    world.members.append(Member(group="never-synced", connection=world.connect("B")))
    world.rebalance("never-synced", sync=False)
    assert [r.partitions for r in world.registrations() if r.group == "never-synced"] == [None]
    assert world.fetch(world.connect("C"), 1).ours != "g"


@pytest.mark.parametrize("kept", [True, False], ids=["its nodes are there", "its nodes are gone"])
def test_f30_a_coordinator_that_could_not_load_looks_empty(world: World, ours: Ours, kept: bool) -> None:
    """KoP owns a partition whose replay failed: scheme 3 then repairs nothing, and a process that deletes all
    non-members deletes everything. Muster trusts only Active coordinators."""
    _, member = consumer(world, 0)
    ours.mapping.sweep(world.registrations())
    loading = world.driver._new_core()
    assert (loading.phase, loading.registrations()) == (Phase.LOADING, ())
    before: dict[str, Node] = dict(ours.mapping.nodes) if kept else {}
    ours.mapping.nodes = dict(before)
    for _ in range(5):
        ours.mapping.sweep(loading.registrations(), trusted=False)
    assert ours.mapping.nodes == before
    assert world.fetch(world.connect("C")).ours == "g"
    ours.mapping.sweep(world.registrations())
    assert ours.mapping.registered() == {f"g:{member.id}"}


def test_f31_a_fetch_that_is_answered_after_its_partition_moved(world: World, ours: Ours) -> None:
    """Any design by assignment would lose it, or give it to the wrong member. The previous owner counts for a while."""
    old = world.join(world.connect("B", "old"), "g", 0, 1)
    new = world.join(world.connect("B", "new"), "g")
    world.find(world.connect("A", "old"), "g")
    world.assign("g", {old.id: (1,), new.id: (0,)})
    world.wait(5_000)
    fetched = world.fetch(world.connect("C", "old"), 0)
    assert (fetched.kop, fetched.ours) == ("g", "g")
    assert ours.books["C"].samples[-1].member_id == old.id
    world.wait(GRACE_MS + 1)
    late = world.fetch(world.connect("C", "old"), 0)
    world.wait(PENDING_MS)
    assert late.ours == "(unknown)"

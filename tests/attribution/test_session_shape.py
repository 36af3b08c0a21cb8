"""Rung 5: all recent fetches of a connection are one member's, so one partition identifies the group of the others."""

from __future__ import annotations

from collections.abc import Iterable

from muster.gateway.attribution.connection import ConnectionState
from tests.attribution.bench import NOW_MS, Bench, Coordinator

SETTLED_MS = 2_000


def fetch(bench: Bench, connection: ConnectionState, partitions: Iterable[int], at_ms: int) -> None:
    """Fetch like a consumer: all its partitions, with records of partition 0."""
    bench.fetching(connection, dict.fromkeys(partitions, 5), at_ms=at_ms)
    bench.send(0, at_ms=at_ms, connection=connection)


def test_each_fetch_that_names_other_partitions_is_noted(bench: Bench) -> None:
    connection = ConnectionState()
    for at_ms, partitions in enumerate(((0,), (0,), (0, 1), (2,), (2,)), NOW_MS):
        bench.fetching(connection, dict.fromkeys(partitions, 5), at_ms=at_ms)
    [fetches] = connection.fetches.values()
    assert [fetches.first_ms(("t", number)) - NOW_MS for number in range(3)] == [0, 2, 3]
    assert [fetches.last_ms(("t", number)) - NOW_MS for number in range(3)] == [2, 2, 4]


def test_a_partition_of_only_one_group_settles_which_of_two(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0, 1), says.register("b", "mb", 0, 2)], NOW_MS - 60_000)
    of_a, of_b = ConnectionState(), ConnectionState()
    for at_ms in (NOW_MS, NOW_MS + SETTLED_MS):
        fetch(bench, of_a, (0, 1), at_ms)
        fetch(bench, of_b, (0, 2), at_ms)
    expected = [("a", "session", None)] * 2 + [("b", "session", None)] * 2
    assert sorted(bench.settle(NOW_MS + SETTLED_MS)) == expected
    fetch(bench, of_b, (0, 2), NOW_MS + 3_000)
    assert bench.labels()[-1] == ("b", "mb", "session", None)


def test_members_are_distinguished_where_their_groups_are_not(bench: Bench) -> None:
    """Both groups have a client of that key for each of the four partitions; only one member has 0 and 1."""
    says = Coordinator()
    bench.account.updates(
        [
            says.register("a", "a1", 0, 1),
            says.register("a", "a2", 2, 3),
            says.register("b", "b1", 0, 2),
            says.register("b", "b2", 1, 3),
        ],
        NOW_MS - 60_000,
    )
    connection = ConnectionState()
    fetch(bench, connection, (0, 1), NOW_MS)
    assert bench.settle(NOW_MS + SETTLED_MS) == [("a", "session", None)]


def test_a_set_that_fits_two_says_nothing(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0, 1, 2), says.register("b", "mb", 0, 1, 3)], NOW_MS - 60_000)
    fetch(bench, ConnectionState(), (0, 1), NOW_MS)
    assert bench.settle(NOW_MS + 60_000) == [(None, "none", "ambiguous")]


def test_a_set_that_fits_no_member_settles_nothing(bench: Bench) -> None:
    """An unknown consumer, or a proxy that carries several."""
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0, 1), says.register("b", "mb", 0, 2)], NOW_MS - 60_000)
    fetch(bench, ConnectionState(), (0, 1, 2), NOW_MS)
    assert bench.settle(NOW_MS + 60_000) == [(None, "none", "ambiguous")]


def test_a_member_that_has_not_synced_fits_everything(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0, 1), says.register("b", "mb", 0, 2)], NOW_MS - 60_000)
    bench.account.updates([says.register("c", "mc", known=False)], NOW_MS - 60_000)
    fetch(bench, ConnectionState(), (0, 1), NOW_MS)
    assert bench.settle(NOW_MS + SETTLED_MS) == []
    bench.account.updates([says.register("c", "mc", 7)], NOW_MS + 3_000)
    assert bench.settle(NOW_MS + 3_000) == [("a", "session", None)]


def test_what_moved_a_moment_ago_says_nothing_yet(bench: Bench) -> None:
    """The registration of a partition that b's member has just got may arrive after b's first Fetch of it."""
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0, 1), says.register("b", "mb", 0, 2)], NOW_MS - 60_000)
    connection = ConnectionState()
    fetch(bench, connection, (0, 1), NOW_MS)
    assert bench.settle(NOW_MS + 1_000) == []
    bench.account.updates([says.register("b", "mb", 0, 1, 2)], NOW_MS + 1_500)
    assert bench.settle(NOW_MS + 50_000) == []


def test_a_later_registration_still_takes_back_what_the_session_settled(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0, 1), says.register("b", "mb", 0, 2)], NOW_MS - 60_000)
    connection = ConnectionState()
    fetch(bench, connection, (0, 1), NOW_MS)
    assert bench.settle(NOW_MS + 3_000) == [("a", "session", None)]
    bench.account.updates([says.register("b", "mb", 0, 1, 2)], NOW_MS + 4_000)
    fetch(bench, connection, (0, 1), NOW_MS + 4_001)
    assert bench.settle(NOW_MS + 50_000) == [("a", "session", None)]


def test_what_the_session_settled_holds_when_the_partition_that_settled_it_goes(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0, 1), says.register("b", "mb", 0, 2)], NOW_MS - 60_000)
    connection = ConnectionState()
    fetch(bench, connection, (0, 1), NOW_MS)
    assert bench.settle(NOW_MS + 3_000) == [("a", "session", None)]
    bench.account.updates([says.register("a", "ma", 0), says.register("b", "mb", 0, 1)], NOW_MS + 10_000)
    fetch(bench, connection, (0,), NOW_MS + 100_000)
    assert bench.settle(NOW_MS + 100_000) == [("a", "session", None)] * 2


def test_a_client_that_rejoins_is_not_taken_for_another_groups_member(bench: Bench) -> None:
    """Its old member id owns what it fetched before, its new one what it fetches now; b's member owns both."""
    says = Coordinator()
    bench.account.updates([says.register("a", "m1", 0, 1), says.register("b", "mb", 0, 1, 2)], NOW_MS - 60_000)
    connection = ConnectionState()
    fetch(bench, connection, (0, 1), NOW_MS)
    bench.account.updates([says.withdraw("a", "m1"), says.register("a", "m2", 0, 2)], NOW_MS + 3_000)
    fetch(bench, connection, (0, 2), NOW_MS + 3_100)
    assert bench.settle(NOW_MS + 8_000) == []

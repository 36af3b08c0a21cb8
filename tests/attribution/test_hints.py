"""The fallbacks for bytes that have waited in vain, and Muster's own readers."""

from __future__ import annotations

import pytest

from muster.gateway.attribution.connection import ConnectionState
from tests.attribution.bench import CLIENT, HOST, NOW_MS, Bench, Coordinator

V6 = "2001:db8::1"
NO_GROUP = (None, "none", "no_group")


@pytest.mark.parametrize(
    ("client_id", "group"),
    [
        ("consumer-orders-1", "orders"),
        ("consumer-orders-eu-12", "orders-eu"),
        ("consumer-Ünïcode-1", "Ünïcode"),
        ("consumer-1", None),
        ("consumer-orders-01", None),
        ("consumer-orders-x", None),
        ("consumer--1", None),
        ("my-consumer-orders-1", None),
        ("consumer-line\nbreak-1", None),
        ("consumer-" + "g" * 201 + "-1", None),
        ("", None),
        (None, None),
    ],
)
def test_the_default_client_id_of_java_hints_at_the_group(
    bench: Bench, client_id: str | None, group: str | None
) -> None:
    """F13: assign() without commits, beside other clients of the group."""
    if group is not None:
        bench.account.updates([Coordinator().register(group, "m", 0, host="10.0.0.9")], NOW_MS)
    bench.send(0, client_id=client_id)
    assert bench.settle(NOW_MS + 59_999) == []
    assert bench.settle(NOW_MS + 60_000) == ([(group, "derived", None)] if group else [NO_GROUP])


@pytest.mark.parametrize("group", ["spark-kafka-source-5f3a-executor", "console-consumer-17", "null", "reports"])
def test_a_hint_makes_up_no_group(bench: Bench, group: str) -> None:
    """Spark's source, the console consumer and Java without a group id, as far as any coordinator knows."""
    bench.send(0, client_id=f"consumer-{group}-1")
    assert bench.settle(NOW_MS + 60_000) == [NO_GROUP]


def test_a_hint_says_nothing_against_a_candidate(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("real", "m", 1, client_id="consumer-other-1")], NOW_MS)
    bench.send(0, client_id="consumer-other-1")
    assert bench.settle(NOW_MS + 60_000) == [(None, "none", "unknown")]


def test_a_hint_names_no_other_principals_group(bench: Bench) -> None:
    """F23: a client may choose any client id."""
    bench.account.updates([Coordinator().register("orders", "m", 0, principal="User:a")], NOW_MS)
    for principal in ("User:a", "User:b"):
        bench.send(0, client_id="consumer-orders-1", connection=ConnectionState(principal))
    assert sorted(bench.settle(NOW_MS + 60_000), key=str) == [("orders", "derived", None), NO_GROUP]


def test_a_hint_does_not_cut_a_group_instance_id(bench: Bench) -> None:
    """With group.instance.id pod-3, Java's default client id of a member of orders is consumer-orders-pod-3."""
    bench.account.updates([Coordinator().register("orders", "m", 0, host="10.0.0.9")], NOW_MS)
    bench.send(0, client_id="consumer-orders-pod-3")
    assert bench.settle(NOW_MS + 60_000) == [NO_GROUP]


def test_a_client_on_both_address_families(bench: Bench) -> None:
    """F17: the group over IPv4, the records over IPv6."""
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS - 10_000)
    bench.send(0, host=V6)
    assert bench.settle(NOW_MS + 59_999) == []
    assert bench.settle(NOW_MS + 60_000) == [("g", "assignment", None)]
    assert bench.labels()[0][1] == "m"


def test_a_member_that_fetches_from_its_own_host_fetches_from_no_other(bench: Bench) -> None:
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS - 10_000)
    bench.send(0, host=V6)
    connection = ConnectionState()
    bench.fetching(connection, {0: 0}, at_ms=NOW_MS + 30_000)
    bench.account.closed(connection)
    assert bench.settle(NOW_MS + 60_000) == [NO_GROUP]


@pytest.mark.parametrize(
    ("group", "host", "known"), [("h", HOST, True), ("g", "10.0.0.2", True), ("h", "10.0.0.2", False)]
)
def test_with_two_members_on_the_other_family_nothing_is_said(bench: Bench, group: str, host: str, known: bool) -> None:
    says = Coordinator()
    bench.account.updates(
        [says.register("g", "m", 0), says.register(group, "n", 0, host=host, known=known)], NOW_MS - 10_000
    )
    bench.send(0, host=V6)
    assert bench.settle(NOW_MS + 60_000) == [NO_GROUP]


def test_the_other_familys_member_must_own_all_that_is_fetched(bench: Bench) -> None:
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS - 10_000)
    connection = ConnectionState()
    bench.fetching(connection, {0: 0, 1: 0}, host=V6)
    bench.send(0, host=V6, connection=connection)
    assert bench.settle(NOW_MS + 60_000) == [NO_GROUP]


def test_two_connections_on_the_other_family_are_not_one_member(bench: Bench) -> None:
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS - 10_000)
    connections = [ConnectionState(), ConnectionState()]
    for at_ms in (NOW_MS, NOW_MS + 55_000):
        for connection in connections:
            bench.fetching(connection, {0: 0}, at_ms=at_ms, host=V6)
            bench.send(0, host=V6, connection=connection, at_ms=at_ms)
    assert bench.settle(NOW_MS + 60_000) == [NO_GROUP] * 2


@pytest.mark.parametrize(
    ("host", "client_id", "principal"), [("10.0.0.2", CLIENT, None), (V6, "x", None), (V6, CLIENT, "User:x")]
)
def test_another_host_of_the_same_family_another_id_or_principal_is_another_client(
    bench: Bench, host: str, client_id: str, principal: str | None
) -> None:
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS - 10_000)
    bench.send(0, host=host, client_id=client_id, connection=ConnectionState(principal) if principal else None)
    assert bench.settle(NOW_MS + 60_000) == [NO_GROUP]


def test_musters_own_readers_have_no_group_and_wait_for_nothing(bench: Bench) -> None:
    """F33"""
    bench.account.updates([Coordinator().register("g", "m", 0, client_id="__muster_spark")], NOW_MS)
    connection = bench.send(0, client_id="__muster_spark")
    bench.send(0, client_id="__muster_spark", connection=connection)
    assert bench.labels() == [(None, None, "none", "internal")] * 2
    assert not any(amount.bytes for amount in bench.account.pending().values())


def test_an_address_that_is_used_again_is_not_the_dead_members(bench: Bench) -> None:
    """F20: a pod's address goes to another pod, whose client has the same id."""
    says = Coordinator()
    bench.account.updates([says.register("dead", "m", 0)], NOW_MS)
    bench.account.updates([says.withdraw("dead", "m")], NOW_MS + 1_000)
    bench.send(0, at_ms=NOW_MS + 1_001 + 30_000)
    bench.account.updates([says.register("new", "n", 0)], NOW_MS + 35_000)
    assert bench.settle(NOW_MS + 35_000) == [("new", "unique_candidate", None)]


def test_a_update_of_an_older_coordinator_gives_nothing_back(bench: Bench) -> None:
    """F20: the epoch decides, not the time of arrival."""
    old = Coordinator(epoch=1)
    late = old.register("dead", "m", 0)
    bench.account.replace(7, 2, [], NOW_MS)
    bench.account.updates([late, old.position("dead", "m", {0: 0})], NOW_MS + 1)
    bench.send(0, at_ms=NOW_MS + 2)
    assert bench.settle(NOW_MS + 60_002) == [NO_GROUP]


def test_a_hint_names_no_group_that_the_client_may_not_read(bench: Bench) -> None:
    bench.account.limit_hints(lambda principal, host, group: (principal, host, group) == ("User:a", HOST, "orders"))
    bench.account.updates([Coordinator().register("orders", "m", 0, host="10.0.0.9", principal=None)], NOW_MS)
    for principal in ("User:a", "User:b"):
        bench.send(0, client_id="consumer-orders-1", connection=ConnectionState(principal))
    assert sorted(bench.settle(NOW_MS + 60_000), key=str) == [("orders", "derived", None), NO_GROUP]


def test_what_is_not_counted_names_no_other_principals_group_either(bench: Bench) -> None:
    """The label of pushed metrics, and the quota of a group."""
    bench.account.updates([Coordinator().register("orders", "m", 0, principal="User:a")], NOW_MS)
    groups = [bench.account.group_of(ConnectionState(f"User:{name}"), HOST, CLIENT, NOW_MS) for name in "ab"]
    assert groups == ["orders", None]

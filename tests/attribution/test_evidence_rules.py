"""The evidence rules, one by one. F numbers are the failure modes of KoP's mapping."""

from __future__ import annotations

import pytest

from muster.gateway.attribution.connection import ConnectionState
from tests.attribution.bench import NOW_MS, Bench, Coordinator

GRACE_MS = 30_000


def test_no_candidate_at_all_is_no_group(bench: Bench) -> None:
    bench.send()
    assert [s.reason for s in bench.sink.waiting.values()] == ["pending"]
    bench.account.settle(NOW_MS + 60_000)
    assert bench.labels() == [(None, None, "none", "no_group")]


def test_a_unique_candidate_that_owns_the_partition(bench: Bench) -> None:
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS)
    bench.send(0)
    assert bench.labels() == [("g", "m", "unique_candidate", None)]


def test_a_unique_candidate_whose_assignment_is_not_known(bench: Bench) -> None:
    """Soon it would be, of a consumer with a known assignor: it has not synced yet."""
    bench.account.updates([Coordinator().register("g", "m", known=False)], NOW_MS)
    bench.send(0)
    bench.account.settle(NOW_MS + 4_999)
    assert bench.labels() == []
    bench.account.settle(NOW_MS + 5_000)
    assert bench.labels() == [("g", "m", "unique_candidate", None)]


def test_a_member_that_has_just_joined_is_not_taken_for_another_client(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("g", "m", known=False)], NOW_MS)
    bench.send(0)
    bench.account.updates([says.register("g", "m", 1)], NOW_MS + 3_000)
    assert bench.settle(NOW_MS + 60_000) == [(None, "none", "unknown")]


def test_a_lone_candidate_that_does_not_own_the_partition_is_a_contradiction(bench: Bench) -> None:
    bench.account.updates([Coordinator().register("g", "m", 1)], NOW_MS)
    bench.send(0)
    bench.account.settle(NOW_MS + 60_000)
    assert bench.labels() == [(None, None, "none", "unknown")]


def test_members_of_one_group_are_distinguished_by_assignment(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("g", "m0", 0), says.register("g", "m1", 1)], NOW_MS)
    bench.send(0)
    bench.send(1)
    assert bench.labels() == [("g", "m0", "unique_candidate", None), ("g", "m1", "unique_candidate", None)]


def test_the_group_is_certain_where_the_member_is_not(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("g", f"m{n}", known=False) for n in range(2)], NOW_MS - 5_000)
    bench.send(0)
    assert bench.labels() == [("g", None, "unique_candidate", None)]


def test_two_groups_with_one_client_id_are_distinguished_by_assignment(bench: Bench) -> None:
    """F4, F5: KoP attributes both groups' bytes to the one that looked up its coordinator last."""
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0), says.register("b", "mb", 1)], NOW_MS)
    bench.send(0)
    bench.send(1)
    assert bench.labels() == [("a", "ma", "assignment", None), ("b", "mb", "assignment", None)]


def test_two_groups_with_one_assignment_are_ambiguous(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0), says.register("b", "mb", 0)], NOW_MS)
    bench.send(0)
    bench.account.settle(NOW_MS + 60_000)
    assert bench.labels() == [(None, None, "none", "ambiguous")]


def test_a_member_of_another_group_that_has_not_synced_may_own_it_too(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0), says.register("b", "mb", known=False)], NOW_MS)
    bench.send(0)
    assert bench.labels() == []
    bench.account.updates([says.register("b", "mb", 1)], NOW_MS + 3_000)
    assert bench.labels() == [("a", "ma", "assignment", None)]


def test_several_groups_of_which_none_owns_it(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0), says.register("b", "mb", known=False)], NOW_MS)
    bench.send(5)
    bench.account.settle(NOW_MS + 60_000)
    assert bench.labels() == [(None, None, "none", "unknown")]


def test_a_group_request_on_the_same_connection_distinguishes_groups(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0), says.register("b", "mb", 0)], NOW_MS)
    connection = bench.send(0)
    assert bench.labels() == []
    bench.account.group_request(connection, "10.0.0.1", "rdkafka", "b")
    bench.send(0, connection=connection)
    assert bench.labels() == [("b", "mb", "same_connection", None)] * 2


def test_a_group_request_is_no_evidence_against_the_assignment(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0), says.register("b", "mb", 1)], NOW_MS)
    connection = ConnectionState()
    bench.account.group_request(connection, "10.0.0.1", "rdkafka", "b")
    bench.send(0, connection=connection)
    assert bench.labels() == [("a", "ma", "assignment", None)]


@pytest.mark.parametrize("other", [("rdkafka", "a"), ("another id", "b")])
def test_a_connection_shared_by_groups_or_clients_is_no_evidence(bench: Bench, other: tuple[str, str]) -> None:
    """F15: a proxy carries several clients over one connection."""
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0), says.register("b", "mb", 0)], NOW_MS)
    connection = ConnectionState()
    for client_id, group in (("rdkafka", "b"), other):
        bench.account.group_request(connection, "10.0.0.1", client_id, group)
    bench.send(0, connection=connection)
    assert bench.labels() == []


def test_one_connection_that_turns_out_to_be_shared_loses_its_evidence(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0), says.register("b", "mb", 0)], NOW_MS)
    connection = ConnectionState()
    bench.account.group_request(connection, "10.0.0.1", "rdkafka", "b")
    bench.send(0, connection=connection)
    bench.send(0, connection=connection, client_id="another id")
    bench.send(0, connection=connection)
    assert [label[0] for label in bench.labels()] == ["b"]


def test_after_a_rebalance_the_previous_owner_counts_for_the_grace_time(bench: Bench) -> None:
    """F31: a Fetch in flight is answered after the partition has moved to another member on another host."""
    says = Coordinator()
    bench.account.updates([says.register("g", "m", 0)], NOW_MS)
    bench.account.updates([says.register("g", "m", 1), says.register("g", "n", 0, host="10.0.0.2")], NOW_MS + 1_000)
    connection = bench.send(0, at_ms=NOW_MS + 1_000 + GRACE_MS)
    assert bench.labels() == [("g", "m", "unique_candidate", None)]
    bench.send(0, at_ms=NOW_MS + 1_001 + GRACE_MS, connection=connection)
    bench.account.settle(NOW_MS + 200_000)
    assert bench.labels()[1:] == [(None, None, "none", "unknown")]


def test_a_client_that_changes_its_group_is_unattributed_while_both_are_possible(bench: Bench) -> None:
    """F16: the bytes of that time stay open, also if the old group was removed long before they are judged."""
    says = Coordinator()
    bench.account.updates([says.register("old", "m", 0)], NOW_MS)
    bench.account.updates([says.withdraw("old", "m"), says.register("new", "n", 0)], NOW_MS + 1_000)
    bench.send(0, at_ms=NOW_MS + 2_000)
    bench.send(0, at_ms=NOW_MS + 1_001 + GRACE_MS)
    assert bench.labels() == [("new", "n", "unique_candidate", None)]
    bench.account.settle(NOW_MS + 62_000)
    assert bench.labels()[1:] == [(None, None, "none", "ambiguous")]


def test_bytes_from_before_a_rebalance_are_not_given_to_the_new_owner(bench: Bench) -> None:
    """A lone candidate that contradicted its assignment does not get the bytes through a later assignment."""
    says = Coordinator()
    bench.account.updates([says.register("g", "m", 1)], NOW_MS)
    bench.send(0, at_ms=NOW_MS + 1_000)
    bench.account.updates([says.register("g", "m", 0, 1)], NOW_MS + 20_000)
    assert bench.labels() == []
    bench.account.settle(NOW_MS + 61_000)
    assert bench.labels() == [(None, None, "none", "unknown")]


def test_a_member_does_not_get_bytes_from_long_before_it_joined(bench: Bench) -> None:
    """Unlike a simple consumer, a member is known before it fetches, apart from the delay of the update."""
    bench.send(0)
    bench.send(0, at_ms=NOW_MS + 15_000)
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS + 20_000)
    bench.account.settle(NOW_MS + 60_000)
    assert bench.labels() == [("g", "m", "unique_candidate", None), (None, None, "none", "no_group")]


def test_a_member_that_joined_long_after_does_not_make_older_bytes_ambiguous(bench: Bench) -> None:
    bench.send(0)
    bench.account.updates([Coordinator(7).register("late", "m", known=False)], NOW_MS + 20_000)
    bench.account.replace(8, 1, [Coordinator(8).register("g", "m", 0)], NOW_MS + 21_000)
    assert bench.labels() == [("g", "m", "unique_candidate", None)]


def test_a_connection_keeps_its_group_when_a_rival_comes_later(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0)], NOW_MS)
    connection = bench.send(0)
    bench.account.updates([says.register("b", "mb", 0)], NOW_MS + 10_000)
    bench.send(0, at_ms=NOW_MS + 10_001, connection=connection)
    bench.send(0, at_ms=NOW_MS + 10_001)
    assert bench.labels() == [("a", "ma", "unique_candidate", None), ("a", "ma", "binding", None)]


def test_a_binding_does_not_hold_against_a_rival_that_may_have_come_before_it(bench: Bench) -> None:
    """The first Fetch of b's member may overtake its registration: that connection must not stay a's forever."""
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0)], NOW_MS - 100_000)
    connection = bench.send(0)
    bench.account.updates([says.register("b", "mb", 0)], NOW_MS + 100)
    bench.send(0, at_ms=NOW_MS + 200, connection=connection)
    assert [label[0] for label in bench.labels()] == ["a"]


def test_a_binding_does_not_hold_against_a_rival_of_a_snapshot(bench: Bench) -> None:
    """A snapshot lists the members, not since when."""
    bench.account.updates([Coordinator(7).register("a", "ma", 0)], NOW_MS)
    connection = bench.send(0)
    bench.account.replace(8, 1, [Coordinator(8).register("b", "mb", 0)], NOW_MS + 50_000)
    bench.send(0, at_ms=NOW_MS + 50_001, connection=connection)
    assert [label[0] for label in bench.labels()] == ["a"]


def test_a_binding_that_was_contradicted_does_not_come_back(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0)], NOW_MS)
    connection = bench.send(0)
    bench.account.updates([says.register("a", "ma", 1)], NOW_MS + 10_000)
    bench.send(0, at_ms=NOW_MS + 50_000, connection=connection)
    bench.account.updates([says.register("a", "ma", 0), says.register("b", "mb", 0)], NOW_MS + 60_000)
    bench.send(0, at_ms=NOW_MS + 60_001, connection=connection)
    assert [label[2] for label in bench.labels()] == ["unique_candidate"]


def test_a_binding_ends_when_its_group_no_longer_owns_the_partition(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0)], NOW_MS)
    connection = bench.send(0)
    later_ms = NOW_MS + 10_000
    bench.account.updates(
        [says.register("b", "mb", 0), says.register("c", "mc", 0), says.register("a", "ma", 1)], later_ms
    )
    bench.send(0, at_ms=later_ms + GRACE_MS, connection=connection)
    bench.send(0, at_ms=later_ms + GRACE_MS + 1, connection=connection)
    assert [label[2] for label in bench.labels()] == ["unique_candidate", "binding"]


def test_hosts_and_client_ids_do_not_leak_into_each_other(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("g", "m", 0, client_id=None)], NOW_MS)
    for client_id in ("", "None", "rdkafka"):
        bench.send(0, client_id=client_id)
    bench.send(0, client_id=None, host="10.0.0.2")
    assert bench.labels() == []
    bench.send(0, client_id=None)
    assert bench.labels() == [("g", "m", "unique_candidate", None)]


def test_two_principals_behind_one_address_are_two_clients(bench: Bench) -> None:
    """F22, F23: no client relabels another tenant's traffic by using its client id behind the same address."""
    says = Coordinator()
    bench.account.updates(
        [says.register("a", "ma", 0, principal="User:a"), says.register("b", "mb", 0, principal="User:b")], NOW_MS
    )
    for principal in ("User:a", "User:b", "User:c"):
        bench.send(0, connection=ConnectionState(principal))
    assert bench.labels() == [("a", "ma", "unique_candidate", None), ("b", "mb", "unique_candidate", None)]
    bench.account.settle(NOW_MS + 60_000)
    assert bench.labels()[2:] == [(None, None, "none", "no_group")]


def test_a_member_without_a_known_principal_may_be_anybodys(bench: Bench) -> None:
    """After a failover of its coordinator, until the member's next request."""
    says = Coordinator()
    bench.account.updates(
        [says.register("a", "ma", 0, principal=None), says.register("b", "mb", 0, principal="User:b")], NOW_MS
    )
    connection = ConnectionState("User:b")
    bench.send(0, connection=connection)
    bench.send(0, connection=ConnectionState("User:a"))
    assert bench.labels() == [("a", "ma", "unique_candidate", None)]
    bench.account.updates([says.register("a", "ma", 0, principal="User:a")], NOW_MS + 3_000)
    assert bench.labels()[1:] == [("b", "mb", "unique_candidate", None)]


def two_groups_and_a_connection_of_a(bench: Bench) -> tuple[Coordinator, ConnectionState]:
    """Both own partition 0; the connection was a's before b started."""
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0)], NOW_MS - 60_000)
    connection = bench.send(0, at_ms=NOW_MS - 30_000)
    bench.account.updates([says.register("b", "mb", 0, 1)], NOW_MS - 10_000)
    bench.send(0, connection=connection)
    assert [label[2] for label in bench.labels()] == ["unique_candidate", "binding"]
    return says, connection


def test_a_partition_whose_registration_is_late_casts_doubt_for_a_while(bench: Bench) -> None:
    says, connection = two_groups_and_a_connection_of_a(bench)
    bench.send(1, at_ms=NOW_MS + 100, connection=connection)
    bench.send(0, at_ms=NOW_MS + 200, connection=connection)
    bench.account.updates([says.register("a", "ma", 0, 1)], NOW_MS + 300)
    for second in range(7):
        bench.settle(NOW_MS + second * 1_000)
    assert bench.labels()[3:] == [("a", "ma", "binding", None)]


def test_a_connection_of_two_groups_is_evidence_for_neither(bench: Bench) -> None:
    """F15: a proxy with one client id for all."""
    _, connection = two_groups_and_a_connection_of_a(bench)
    bench.send(1, at_ms=NOW_MS + 100, connection=connection)
    for second in range(1, 9):
        bench.send(0, at_ms=NOW_MS + second * 1_000, connection=connection)
        bench.settle(NOW_MS + second * 1_000)
    assert bench.labels()[2:] == [("b", "mb", "assignment", None)]

"""Groups one after another, and side by side, with one client id: possible fetchers, by the order of events."""

from __future__ import annotations

import pytest

from muster.gateway.attribution.account import End
from muster.gateway.attribution.connection import ConnectionState
from tests.attribution.bench import CLIENT, HOST, NOW_MS, Bench, Coordinator
from tests.attribution.churn import Churn, Timing

GRACE_MS = 30_000


@pytest.fixture
def says() -> Coordinator:
    return Coordinator()


def run(bench: Bench, connections: list[ConnectionState], from_ms: int, to_ms: int) -> None:
    """Every connection continues to fetch partitions 0 and 1, and gets records of 0."""
    for at_ms in range(from_ms, to_ms, 250):
        for connection in connections:
            bench.fetching(connection, {0: 0, 1: 0}, at_ms=at_ms)
            bench.send(0, at_ms=at_ms, connection=connection)
        bench.settle(at_ms)


def test_groups_one_after_another_are_distinguished_at_once(bench: Bench, says: Coordinator) -> None:
    """Each connection was opened after the previous members had left, so it is not theirs; there is no gap at all."""
    at_ms = NOW_MS
    for number in range(6):
        group = f"job-{number}"
        bench.account.updates([says.register(group, "m", known=False)], at_ms)
        bench.account.updates([says.register(group, "m", 0, 1)], at_ms + 1)
        connection = ConnectionState(opened_ms=at_ms + 2)
        run(bench, [connection], at_ms + 2, at_ms + 2_002)
        assert bench.labels()[-8:] == [(group, "m", "unique_candidate", None)] * 8
        bench.account.updates([says.withdraw(group, "m", left=True)], at_ms + 2_001)
        bench.account.closed(connection)
        at_ms += 2_002
    assert not bench.sink.waiting


def test_who_was_expelled_may_come_back_on_a_new_connection(bench: Bench, says: Coordinator) -> None:
    """A session timeout is not the client's action: it may not know of it, and its connections may have been cut."""
    bench.account.updates([says.register("a", "ma", 0, 1)], NOW_MS - 60_000)
    bench.account.updates([says.withdraw("a", "ma"), says.register("b", "mb", 0, 1)], NOW_MS)
    run(bench, [ConnectionState(opened_ms=NOW_MS + 1)], NOW_MS + 1, NOW_MS + GRACE_MS)
    assert bench.labels() == []


@pytest.mark.parametrize("opened_ms", [0, NOW_MS - 60_000, NOW_MS])
def test_a_connection_from_before_a_member_left_may_be_its(bench: Bench, says: Coordinator, opened_ms: int) -> None:
    """Until a Fetch was sent on it that its member would have had to send after leaving."""
    bench.account.updates([says.register("a", "ma", 0, 1), says.register("b", "mb", 0, 1)], NOW_MS - 60_000)
    connection = ConnectionState(opened_ms=opened_ms)
    run(bench, [connection], NOW_MS - 10_000, NOW_MS)
    bench.account.updates([says.withdraw("a", "ma", left=True)], NOW_MS)
    bench.fetching(connection, {0: 0, 1: 0}, at_ms=NOW_MS + 1)  # may have been in flight
    assert bench.settle(NOW_MS + 2_001) == []
    bench.fetching(connection, {0: 0, 1: 0}, at_ms=NOW_MS + 3_000)
    assert set(bench.settle(NOW_MS + 3_001)) == {("b", "session", None)}


def test_a_client_that_leaves_and_joins_again_is_its_groups_still(bench: Bench, says: Coordinator) -> None:
    bench.account.updates([says.register("a", "m1", 0, 1), says.register("b", "mb", 0, 1)], NOW_MS - 60_000)
    connection = ConnectionState()
    run(bench, [connection], NOW_MS - 5_000, NOW_MS)
    bench.account.updates([says.withdraw("a", "m1", left=True)], NOW_MS)
    bench.account.updates([says.register("a", "m2", 0, 1)], NOW_MS + 10)
    run(bench, [connection], NOW_MS + 20, NOW_MS + 20_000)
    assert bench.labels() == []


def test_a_partition_that_a_member_had_before_it_left_is_not_its_on_a_new_connection(
    bench: Bench, says: Coordinator
) -> None:
    bench.account.updates([says.register("a", "ma", 0, 1)], NOW_MS - 60_000)
    bench.account.updates([says.register("a", "ma", 1)], NOW_MS - 2_000)
    bench.account.updates([says.withdraw("a", "ma", left=True), says.register("b", "mb", 0)], NOW_MS)
    bench.send(0, at_ms=NOW_MS + 2, connection=ConnectionState(opened_ms=NOW_MS + 1))
    assert bench.labels() == [("b", "mb", "unique_candidate", None)]


def test_a_connection_that_began_before_a_group_was_reported_is_not_that_groups(
    bench: Bench, says: Coordinator
) -> None:
    """All coordinators had been queried in between. The other connection then belongs to the new group."""
    bench.account.updates([says.register("a", "ma", 0, 1)], NOW_MS)
    of_a, of_b = ConnectionState(opened_ms=NOW_MS), ConnectionState(opened_ms=NOW_MS + 200)
    run(bench, [of_a], NOW_MS + 10, NOW_MS + 11)
    bench.account.heard(NOW_MS + 11)
    bench.account.updates([says.register("b", "mb", 0, 1)], NOW_MS + 150)
    run(bench, [of_a, of_b], NOW_MS + 260, NOW_MS + 6_000)
    bench.settle(NOW_MS + 6_000)
    assert not bench.sink.waiting
    samples = sorted(bench.sink.final, key=lambda sample: sample.ts_ms)
    assert [sample.group for sample in samples[:2]] == ["a", "a"]
    assert {sample.group for sample in samples[1::2]} == {"a"}
    assert {sample.group for sample in samples[2::2]} == {"b"}


def test_a_label_waits_until_coordinators_were_heard(bench: Bench, says: Coordinator) -> None:
    """However often others start in between; and no longer than 2 s, if one of them does not respond."""
    begun: list[None] = []
    bench.account.on_begun = lambda: begun.append(None)
    bench.account.updates([says.register("a", "ma", 0, 1)], NOW_MS)
    first, second = ConnectionState(opened_ms=NOW_MS), ConnectionState(opened_ms=NOW_MS)
    bench.fetching(first, {0: 0}, at_ms=NOW_MS + 10)
    bench.send(0, at_ms=NOW_MS + 10, connection=first)
    bench.fetching(second, {1: 0}, at_ms=NOW_MS + 12)
    bench.send(1, at_ms=NOW_MS + 12, connection=second)
    assert (len(begun), bench.labels()) == (2, [])
    bench.account.heard(NOW_MS + 11)
    assert [sample.partition for sample in bench.sink.final] == [0]
    assert bench.settle(NOW_MS + 1_000) == [("a", "unique_candidate", None)]
    assert bench.settle(NOW_MS + 2_012) == [("a", "unique_candidate", None)] * 2


def test_who_joins_when_a_reader_has_gone_is_not_that_reader(bench: Bench, says: Coordinator) -> None:
    """Coordinators are queried when a connection is closed for which bytes wait, so this needs no five seconds."""
    queries: list[None] = []
    bench.account.on_begun = lambda: queries.append(None)
    reader = ConnectionState(opened_ms=NOW_MS)
    run(bench, [reader], NOW_MS, NOW_MS + 1_000)
    bench.account.heard(NOW_MS)
    bench.account.closed(reader)
    assert len(queries) == 2
    bench.account.heard(NOW_MS + 1_000)
    bench.account.updates([says.register("a", "ma", 0, 1)], NOW_MS + 1_010)
    assert {group for group, *_ in bench.settle(NOW_MS + 62_000)} == {None}


def test_a_reader_is_not_the_member_that_joins_beside_it(bench: Bench, says: Coordinator) -> None:
    """Coordinators had been queried when it began, so the member is another client: it has five seconds to begin."""
    bench.account.on_begun = lambda: None
    reader, member = ConnectionState(opened_ms=NOW_MS), ConnectionState(opened_ms=NOW_MS + 1_500)
    run(bench, [reader], NOW_MS, NOW_MS + 1_000)
    bench.account.heard(NOW_MS)
    bench.account.updates([says.register("a", "ma", 0, 1)], NOW_MS + 1_000)
    run(bench, [reader], NOW_MS + 1_000, NOW_MS + 2_000)
    run(bench, [reader, member], NOW_MS + 2_000, NOW_MS + 9_000)
    bench.account.heard(NOW_MS + 2_000)
    bench.settle(NOW_MS + 80_000)
    assert [sample.group for sample in bench.sink.final].count("a") == 7 * 4


def test_a_group_that_may_be_reported_late_may_have_begun_before(bench: Bench, says: Coordinator) -> None:
    """No coordinator was queried, so certainty takes LAG_MS."""
    bench.account.updates([says.register("a", "ma", 0, 1)], NOW_MS)
    connection = ConnectionState(opened_ms=NOW_MS)
    run(bench, [connection], NOW_MS + 10, NOW_MS + 11)
    bench.account.updates([says.register("b", "mb", 0, 1)], NOW_MS + 150)
    run(bench, [connection], NOW_MS + 260, NOW_MS + 20_000)
    assert len(bench.labels()) == 1


def test_two_that_began_together_are_known_when_one_of_them_leaves(bench: Bench, says: Coordinator) -> None:
    bench.account.updates([says.register("a", "ma", 0, 1), says.register("b", "mb", 0, 1)], NOW_MS)
    of_a, of_b = ConnectionState(opened_ms=NOW_MS), ConnectionState(opened_ms=NOW_MS)
    run(bench, [of_a, of_b], NOW_MS + 10, NOW_MS + 10_000)
    assert bench.labels() == []
    bench.account.updates([says.withdraw("a", "ma", left=True)], NOW_MS + 10_010)
    bench.account.closed(of_a)
    run(bench, [of_b], NOW_MS + 10_020, NOW_MS + 14_000)
    assert {sample.group for sample in bench.sink.final if sample.ts_ms < NOW_MS + 10_000} == {"a", "b"}
    assert [sample.group for sample in bench.sink.final].count("a") == 40
    assert not bench.sink.waiting


def test_a_member_that_follows_one_that_left_has_its_groups_label(bench: Bench, says: Coordinator) -> None:
    """Even if the connection of the one that left is not closed yet."""
    bench.account.updates([says.register("g", "m1", 0, 1)], NOW_MS)
    run(bench, [ConnectionState(opened_ms=NOW_MS)], NOW_MS + 10, NOW_MS + 10_000)
    bench.account.updates([says.withdraw("g", "m1", left=True)], NOW_MS + 10_000)
    bench.account.updates([says.register("g", "m2", 0, 1)], NOW_MS + 10_010)
    run(bench, [ConnectionState(opened_ms=NOW_MS + 10_020)], NOW_MS + 10_020, NOW_MS + 20_000)
    assert {(sample.group, sample.reason) for sample in bench.sink.final} == {("g", None)}
    assert not bench.sink.waiting


def test_streams_go_on_where_they_ended_before_a_restart(bench: Bench, says: Coordinator) -> None:
    bench.account.resumes(
        [End(group, "m", "10.0.0.1", "rdkafka", "t", 0, offset) for group, offset in (("a", 70), ("b", 30))], NOW_MS
    )
    bench.account.replace(7, 1, [says.register("a", "ma", 0), says.register("b", "mb", 0)], NOW_MS)
    for offset in (30, 70):
        connection = ConnectionState(opened_ms=NOW_MS + 1)
        bench.fetching(connection, {0: offset}, at_ms=NOW_MS + 2)
        bench.send(0, at_ms=NOW_MS + 2, connection=connection)
    assert bench.labels() == [("b", "mb", "offset_continuity", None), ("a", "ma", "offset_continuity", None)]


def test_where_only_one_stream_is_known_to_have_ended_another_one_may_have_too(bench: Bench, says: Coordinator) -> None:
    """b, which had read everything as well, reconnects first; its bytes of before the restart had no group yet."""
    bench.account.resumes([End("a", "m", "10.0.0.1", "rdkafka", "t", 0, 70)], NOW_MS)
    bench.account.replace(7, 1, [says.register("a", "ma", 0), says.register("b", "mb", 0)], NOW_MS)
    of_b = ConnectionState(opened_ms=NOW_MS + 1)
    bench.fetching(of_b, {0: 70}, at_ms=NOW_MS + 2)
    bench.send(0, at_ms=NOW_MS + 2, connection=of_b)
    assert bench.labels() == []
    assert bench.settle(NOW_MS + 3_000) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lanes", [1, 10])
def test_many_groups_that_come_and_go(seed: int, lanes: int) -> None:
    """All of one topic, with one address and client id, and no position that distinguishes them."""
    churn = Churn(seed, lanes=lanes)
    churn.run()
    assert not churn.wrong()
    assert {group for group, _, _ in churn.unattributed()} <= churn.alike()


@pytest.mark.parametrize("seed", range(4))
def test_many_groups_that_come_and_go_over_a_kill_of_the_gateway(seed: int) -> None:
    """Records that were pending at that moment are in the samples without a group, and nothing else."""
    churn = Churn(seed, lanes=6)
    churn.run(restart_ms=12_000)
    assert not churn.wrong()
    assert {group for group, _, reason in churn.unattributed() if reason != "pending"} <= churn.alike()


@pytest.mark.parametrize("seed", range(4))
def test_many_groups_whose_updates_come_late(seed: int) -> None:
    """Later than their first Fetches. Then there may be less certainty, and no wrong label."""
    churn = Churn(seed, lanes=6, timing=Timing(way=(0, 400)))
    churn.run()
    assert not churn.wrong()


def test_a_client_that_fetches_and_then_joins_on_the_same_connection(bench: Bench, says: Coordinator) -> None:
    """Coordinators had been queried in between; the connection itself shows whose it is."""
    bench.account.on_begun = lambda: None
    connection = ConnectionState(opened_ms=NOW_MS)
    run(bench, [connection], NOW_MS, NOW_MS + 250)
    bench.account.heard(NOW_MS)
    bench.account.group_request(connection, HOST, CLIENT, "a")
    bench.account.updates([says.register("a", "ma", 0, 1)], NOW_MS + 1_000)
    assert bench.settle(NOW_MS + 1_000) == [("a", "same_connection", None)]

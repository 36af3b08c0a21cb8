"""Consumers that assign partitions themselves: what they commit shows which connection is theirs (F12, F13)."""

from __future__ import annotations

import pytest

from muster.gateway.attribution.connection import ConnectionState
from tests.attribution.bench import CLIENT, HOST, NOW_MS, Bench, Coordinator

BY_COMMIT = "offset_continuity"


@pytest.fixture
def says() -> Coordinator:
    return Coordinator()


def read(
    bench: Bench, offset: int = 0, *, partition: int = 0, at_ms: int = NOW_MS, connection: ConnectionState | None = None
) -> ConnectionState:
    """Fetch ten records from there. A new connection was opened just now."""
    connection = connection or ConnectionState(opened_ms=at_ms)
    bench.fetching(connection, {partition: offset}, at_ms=at_ms)
    return bench.send(partition, at_ms=at_ms, connection=connection, offset=offset)


def groups(bench: Bench, at_ms: int = NOW_MS + 200_000) -> list[str | None]:
    """Return the group of everything that was sent, in the order in which it became certain."""
    bench.settle(at_ms)
    return [group for group, *_ in bench.labels()]


def test_a_commit_of_what_a_connection_was_sent_shows_its_group(bench: Bench, says: Coordinator) -> None:
    """Also for what it was sent seconds before; and later bytes are certain at once."""
    connection = read(bench)
    bench.account.updates(says.commit("s", {0: 10}), NOW_MS + 5_000)
    read(bench, 10, at_ms=NOW_MS + 5_100, connection=connection)
    assert [(group, evidence) for group, _, evidence, _ in bench.labels()] == [("s", BY_COMMIT)] * 2


def test_each_further_partition_once_it_is_committed(bench: Bench, says: Coordinator) -> None:
    connection = read(bench)
    read(bench, partition=1, connection=connection)
    bench.account.updates(says.commit("s", {0: 10}), NOW_MS + 5_000)
    assert [(s.group, s.partition) for s in bench.sink.final] == [("s", 0)]
    bench.account.updates(says.commit("s", {0: 10, 1: 10}), NOW_MS + 55_000)
    assert [(s.group, s.partition) for s in bench.sink.final] == [("s", 0), ("s", 1)]


def test_the_next_program_with_its_client_id_is_not_its_group(bench: Bench, says: Coordinator) -> None:
    """It reads the same, while the registration is still there."""
    connection = read(bench)
    bench.account.updates(says.commit("s", {0: 10}), NOW_MS)
    bench.account.closed(connection)
    read(bench, at_ms=NOW_MS + 40_000)
    bench.account.settle(NOW_MS + 101_000)
    assert [(s.group, s.reason) for s in bench.sink.final] == [("s", None), (None, "no_group")]


def test_a_commit_of_nothing_on_the_connection_shows_its_group(bench: Bench, says: Coordinator) -> None:
    """A program that says whom it reads for, and commits nothing itself: at once, for any partition."""
    named, other = ConnectionState(opened_ms=NOW_MS), ConnectionState(opened_ms=NOW_MS)
    bench.account.group_request(named, HOST, CLIENT, "s")
    bench.account.updates(says.commit("s", {}), NOW_MS)
    read(bench, partition=1, at_ms=NOW_MS + 100, connection=named)
    assert [(group, evidence) for group, _, evidence, _ in bench.labels()] == [("s", "same_connection")]
    read(bench, partition=1, at_ms=NOW_MS + 200, connection=other)
    assert groups(bench) == ["s", None]


def test_what_a_connection_says_alone_shows_nothing(bench: Bench) -> None:
    """Its coordinator may have refused it."""
    connection = ConnectionState(opened_ms=NOW_MS)
    bench.account.group_request(connection, HOST, CLIENT, "s")
    read(bench, connection=connection)
    assert groups(bench) == [None]


def test_simple_consumers_in_turn(bench: Bench, says: Coordinator) -> None:
    for number, group in enumerate("xyx"):
        at_ms = NOW_MS + number * 40_000
        connection = read(bench, at_ms=at_ms)
        bench.account.updates(says.commit(group, {0: 10}, connection=f"1-{number}"), at_ms + 100)
        bench.account.closed(connection)
    assert groups(bench) == ["x", "y", "x"]


def test_a_reader_between_two_of_its_processes_is_not_its_group(bench: Bench, says: Coordinator) -> None:
    """The reader goes on while the second one commits what the reader was not sent."""
    first = read(bench)
    bench.account.updates(says.commit("s", {0: 10}, connection="1-1"), NOW_MS + 100)
    bench.account.closed(first)
    reader = read(bench, at_ms=NOW_MS + 20_000)
    second = read(bench, 10, at_ms=NOW_MS + 30_000)
    bench.account.updates(says.commit("s", {0: 20}, connection="1-2"), NOW_MS + 30_100)
    read(bench, 20, at_ms=NOW_MS + 30_200, connection=second)
    read(bench, 10, at_ms=NOW_MS + 30_300, connection=reader)
    assert groups(bench).count("s") == 3
    assert [s.group for s in bench.sink.final if s.ts_ms in (NOW_MS + 20_000, NOW_MS + 30_300)] == [None, None]


def test_a_member_of_another_group_is_not_confused_with_it(bench: Bench, says: Coordinator) -> None:
    connection = read(bench)
    bench.account.updates(says.commit("s", {0: 10}), NOW_MS)
    bench.account.closed(connection)
    bench.account.updates([says.register("y", "m", 0)], NOW_MS + 40_000)
    read(bench, at_ms=NOW_MS + 40_100)
    assert groups(bench) == ["s", "y"]


def test_a_member_beside_it_and_itself(bench: Bench, says: Coordinator) -> None:
    bench.account.updates([says.register("y", "m", 0)], NOW_MS)
    member = simple = None
    for number in range(20):
        at_ms = NOW_MS + number * 500
        member = read(bench, 500 + number * 10, at_ms=at_ms, connection=member)
        if number > 10:
            simple = read(bench, (number - 11) * 10, at_ms=at_ms + 100, connection=simple)
    bench.account.updates(says.commit("s", {0: 90}), NOW_MS + 10_000)
    read(bench, 90, at_ms=NOW_MS + 10_100, connection=simple)
    read(bench, 700, at_ms=NOW_MS + 10_100, connection=member)
    labels = groups(bench)
    assert (labels.count("y"), labels.count("s")) == (21, 10)


def test_two_of_one_group_may_read_the_same(bench: Bench, says: Coordinator) -> None:
    these = [read(bench), read(bench, 300)]
    for connection, offset in enumerate((10, 310, 10, 310)):
        bench.account.updates(says.commit("s", {0: offset}, connection=f"1-{connection % 2}"), NOW_MS + 100)
    for each in these:
        read(bench, 310, at_ms=NOW_MS + 1_000, connection=each)
    assert groups(bench) == ["s"] * 4


def test_a_tool_that_sets_offsets_gives_nobody_a_label(bench: Bench, says: Coordinator) -> None:
    """Where the reader begins, before it, and beyond what it was sent."""
    reader = read(bench, 100)
    for number, offset in enumerate((100, 0, 700)):
        bench.account.updates(says.commit("s", {0: offset}, connection=f"1-{number}"), NOW_MS + 10 * number)
    read(bench, 110, at_ms=NOW_MS + 1_000, connection=reader)
    assert groups(bench) == [None, None]


def test_a_reader_of_the_same_records_leaves_it_open(bench: Bench, says: Coordinator) -> None:
    """Until the consumer commits what only one of them was sent."""
    both = [read(bench), read(bench)]
    bench.account.updates(says.commit("s", {0: 10}), NOW_MS + 100)
    assert bench.labels() == []
    read(bench, 10, at_ms=NOW_MS + 2_000, connection=both[1])
    bench.account.updates(says.commit("s", {0: 20}), NOW_MS + 2_100)
    assert [s.group for s in bench.sink.final] == ["s", "s"]


def test_a_reader_beside_it_is_not_its_successor(bench: Bench, says: Coordinator) -> None:
    """The consumer's connection is lost, and it commits before it has a new one."""
    simple, reader = read(bench), read(bench)
    bench.account.updates(says.commit("s", {0: 10}), NOW_MS + 100)
    bench.account.closed(simple)
    for number in range(1, 4):
        read(bench, 10 * number, at_ms=NOW_MS + 1_000 * number, connection=reader)
        bench.account.updates(says.commit("s", {0: 10 * number}), NOW_MS + 1_000 * number + 100)
    again = read(bench, 40, at_ms=NOW_MS + 4_000)
    read(bench, 40, at_ms=NOW_MS + 4_000, connection=reader)
    bench.account.updates(says.commit("s", {0: 35}), NOW_MS + 4_100)
    assert bench.labels() == [], "it had buffered some records"
    bench.account.updates(says.commit("s", {0: 50}), NOW_MS + 5_100)
    read(bench, 50, at_ms=NOW_MS + 6_000, connection=again)
    assert [s.group for s in bench.sink.final] == ["s", "s"]


def test_a_commit_of_where_a_consumer_will_begin_is_not_of_the_reader_before_it(
    bench: Bench, says: Coordinator
) -> None:
    """It has not sent a Fetch yet, and a reader that had been sent as much has just gone."""
    bench.account.closed(read(bench))
    bench.account.updates(says.commit("s", {0: 5}), NOW_MS + 50)
    connection = read(bench, 5, at_ms=NOW_MS + 100)
    bench.account.updates(says.commit("s", {0: 15}), NOW_MS + 1_100)
    bench.account.closed(connection)
    assert groups(bench) == ["s", None]


def test_what_has_read_everything_is_not_certain(bench: Bench, says: Coordinator) -> None:
    """A reader that begins at the end is where the consumer is; that one fetches from elsewhere."""
    reader = ConnectionState(opened_ms=NOW_MS)
    bench.fetching(reader, {0: 500})
    bench.account.updates(says.commit("s", {0: 500}), NOW_MS + 100)
    bench.send(0, at_ms=NOW_MS + 1_000, connection=reader, offset=500)
    assert groups(bench) == [None]


@pytest.mark.parametrize("other", ["principal", "client_id"])
def test_another_clients_commit_is_no_evidence(bench: Bench, says: Coordinator, other: str) -> None:
    read(bench)
    bench.account.updates(says.commit("s", {0: 10}, **{other: "User:ann"}), NOW_MS + 100)
    assert groups(bench) == [None]


def test_a_commit_on_the_connection_that_fetches(bench: Bench, says: Coordinator) -> None:
    """sarama has one connection for both."""
    connection = read(bench)
    bench.account.group_request(connection, HOST, CLIENT, "s")
    bench.account.updates(says.commit("s", {0: 5}), NOW_MS + 100)
    assert [label[::2] for label in bench.labels()] == [("s", "same_connection")]


def test_quotas_and_faults_do_not_take_a_reader_for_the_group(bench: Bench, says: Coordinator) -> None:
    connection = read(bench)
    bench.account.updates(says.commit("s", {0: 10}), NOW_MS + 100)
    bench.account.closed(connection)
    reader = read(bench, at_ms=NOW_MS + 5_000)
    assert bench.account.group_of(connection, HOST, CLIENT, NOW_MS + 5_000) == "s"
    assert bench.account.group_of(reader, HOST, CLIENT, NOW_MS + 5_000) is None
    assert bench.account.group_of(ConnectionState(), HOST, CLIENT, NOW_MS + 5_000) is None

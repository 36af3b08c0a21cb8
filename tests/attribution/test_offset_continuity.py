"""Rung 6: a connection that starts at the offset that a client of one group got is that group's."""

from __future__ import annotations

import pytest

from muster.gateway.attribution.connection import ConnectionState
from tests.attribution.bench import NOW_MS, Bench, Coordinator


def begin(
    bench: Bench, offset: int, *, partition: int = 0, at_ms: int = NOW_MS, connection: ConnectionState | None = None
) -> ConnectionState:
    """Begin a connection with a Fetch of a partition and the records in its response."""
    connection = connection or ConnectionState()
    bench.fetching(connection, {partition: offset}, at_ms=at_ms)
    bench.send(partition, at_ms=at_ms, connection=connection)
    return connection


@pytest.fixture
def says(bench: Bench) -> Coordinator:
    """Two groups without any other difference."""
    says = Coordinator()
    bench.account.updates([says.register(group, f"m{group}", 0, 1) for group in "ab"], NOW_MS - 60_000)
    return says


def test_a_connection_that_begins_at_the_offset_of_one_group_is_that_groups(bench: Bench, says: Coordinator) -> None:
    bench.account.updates([says.position("a", "ma", {0: 100}), says.position("b", "mb", {0: 700})], NOW_MS - 10)
    begin(bench, 700)
    of_a = begin(bench, 100)
    assert bench.labels() == [("b", "mb", "offset_continuity", None), ("a", "ma", "offset_continuity", None)]
    bench.fetching(of_a, {0: 900}, at_ms=NOW_MS + 500_000)
    bench.send(0, at_ms=NOW_MS + 500_000, connection=of_a)
    assert bench.labels()[2:] == [("a", "ma", "offset_continuity", None)]


def test_one_partition_is_evidence_for_all_that_the_connection_fetches(bench: Bench, says: Coordinator) -> None:
    bench.account.updates([says.position("a", "ma", {0: 100})], NOW_MS - 10)
    connection = begin(bench, 100)
    bench.fetching(connection, {0: 110, 1: 0}, at_ms=NOW_MS + 100)
    bench.send(1, at_ms=NOW_MS + 100, connection=connection)
    assert bench.labels()[1:] == [("a", "ma", "offset_continuity", None)]


def test_an_offset_fetch_that_is_reported_late_settles_what_waits(bench: Bench, says: Coordinator) -> None:
    connection = begin(bench, 100)
    bench.send(0, at_ms=NOW_MS + 1_500, connection=connection)
    assert bench.labels() == []
    bench.account.updates([says.position("a", "ma", {0: 100})], NOW_MS + 4_000)
    assert bench.labels() == [("a", "ma", "offset_continuity", None)] * 2


def test_two_groups_at_one_position_say_nothing(bench: Bench, says: Coordinator) -> None:
    bench.account.updates([says.position("a", "ma", {0: 100}), says.position("b", "mb", {0: 100})], NOW_MS - 10)
    begin(bench, 100)
    assert bench.settle(NOW_MS + 60_000) == [(None, "none", "ambiguous")]


def test_two_connections_that_begin_at_one_position_are_not_both_its_groups(bench: Bench, says: Coordinator) -> None:
    """b has no committed offset and starts at the first one, where a happens to be."""
    bench.fetching(ConnectionState(), {0: 100})
    begin(bench, 100, at_ms=NOW_MS + 1)
    bench.account.updates([says.position("a", "ma", {0: 100})], NOW_MS + 2)
    assert bench.labels() == []


@pytest.mark.parametrize("reported_ms", [NOW_MS + 5_001, NOW_MS - 60_001])
def test_a_position_counts_only_for_who_begins_soon_after(bench: Bench, says: Coordinator, reported_ms: int) -> None:
    bench.account.updates([says.position("a", "ma", {0: 100})], min(reported_ms, NOW_MS))
    if reported_ms <= NOW_MS:
        begin(bench, 100)
    else:
        begin(bench, 100, at_ms=NOW_MS - 5_001)
    assert bench.labels() == []


def test_positions_that_contradict_each_other_say_nothing(bench: Bench, says: Coordinator) -> None:
    bench.account.updates([says.position("a", "ma", {0: 100}), says.position("b", "mb", {1: 100})], NOW_MS - 10)
    connection = ConnectionState()
    bench.fetching(connection, {0: 100, 1: 100})
    bench.send(0, connection=connection)
    assert bench.labels() == []


def test_a_position_of_another_principal_or_host_says_nothing(bench: Bench, says: Coordinator) -> None:
    bench.account.updates(
        [says.position("a", "ma", {0: 100}, principal="User:x"), says.position("a", "ma", {0: 100}, host="10.0.0.2")],
        NOW_MS - 10,
    )
    begin(bench, 100)
    assert bench.labels() == []


def test_who_does_not_begin_at_a_position_may_still_be_its_group(bench: Bench, says: Coordinator) -> None:
    """It may seek, or its offset may be out of range."""
    bench.account.updates([says.position("a", "ma", {0: 100})], NOW_MS - 10)
    begin(bench, 0)
    assert bench.labels() == []


def test_a_stream_that_seeks_back_stays_its_groups(bench: Bench, says: Coordinator) -> None:
    bench.account.updates([says.position("a", "ma", {0: 100}), says.position("b", "mb", {0: 40})], NOW_MS - 10)
    connection = begin(bench, 100)
    bench.fetching(connection, {0: 40}, at_ms=NOW_MS + 30_000)
    bench.send(0, at_ms=NOW_MS + 30_000, connection=connection)
    assert [label[0] for label in bench.labels()] == ["a", "a"]

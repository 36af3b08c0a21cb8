"""Rung 7: as many connections as groups without any difference; each group gets one of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.actors.tables.rollup import Sample
from muster.gateway.attribution.account import Account
from muster.gateway.attribution.connection import ConnectionState
from muster.placement.mapping.registration import Kind
from tests.attribution.bench import HOST, NOW_MS, Bench, Coordinator, Sink

PENDING_MS, PATIENCE_MS = 10_000, 5_000


@pytest.fixture
def hasty() -> Bench:
    """Whose bytes wait for so long only half as long for better evidence as by default."""
    return Bench(Account(sink := Sink(), Sample, pending_ms=PENDING_MS), sink)


def poll(bench: Bench, connections: list[ConnectionState], at_ms: int, *, offset: int = 0) -> None:
    """Every connection fetches partition 0 and gets records."""
    for connection in connections:
        bench.fetching(connection, {0: offset}, at_ms=at_ms)
        bench.send(0, at_ms=at_ms, connection=connection, offset=offset)


def groups_of(bench: Bench, connections: list[ConnectionState], at_ms: int) -> list[str | None]:
    """Return the group to which the next records of each connection go at once; None if they are pending."""
    found = []
    for connection in connections:
        before = len(bench.sink.final)
        bench.fetching(connection, {0: 0}, at_ms=at_ms)
        bench.send(0, at_ms=at_ms, connection=connection)
        found.append(bench.sink.final[-1].group if len(bench.sink.final) > before else None)
    return found


def with_groups(bench: Bench, *groups: str, since_ms: int = NOW_MS - 60_000) -> Coordinator:
    says = Coordinator()
    bench.account.updates([says.register(group, f"m{group}", 0) for group in groups], since_ms)
    return says


def test_connections_and_groups_are_paired_after_a_while(hasty: Bench) -> None:
    with_groups(hasty, "b", "a")
    connections = [ConnectionState(), ConnectionState()]
    for second in range(5):
        poll(hasty, connections, NOW_MS + second * 1_000)
        assert hasty.settle(NOW_MS + second * 1_000) == []
    poll(hasty, connections, NOW_MS + PATIENCE_MS)
    hasty.settle(NOW_MS + PATIENCE_MS)
    assert Counter(label[:3:2] for label in hasty.labels()) == {("a", "one_to_one"): 6, ("b", "one_to_one"): 6}
    assert groups_of(hasty, connections, NOW_MS + 6_000) == ["a", "b"]


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_connections_than_groups_says_nothing(bench: Bench, count: int) -> None:
    """One group may not have started yet; an unknown consumer may be among them."""
    with_groups(bench, "a", "b")
    connections = [ConnectionState() for _ in range(count)]
    for second in range(30):
        poll(bench, connections, NOW_MS + second * 1_000)
        assert bench.settle(NOW_MS + second * 1_000) == []


def test_a_group_that_has_its_connection_is_not_the_others(bench: Bench) -> None:
    """a started before b was there, so the other connection is b's; this is no guess."""
    says = with_groups(bench, "a")
    of_a, of_b = ConnectionState(), ConnectionState()
    poll(bench, [of_a], NOW_MS)
    bench.account.updates([says.register("b", "mb", 0)], NOW_MS + 20_000)
    for at_ms in (NOW_MS + 20_000, NOW_MS + 21_000, NOW_MS + 22_000):
        poll(bench, [of_b, of_a], at_ms)
    bench.settle(NOW_MS + 22_000)
    assert groups_of(bench, [of_a, of_b], NOW_MS + 22_100) == ["a", "b"]


def test_a_client_that_connects_again_is_not_taken_for_another(bench: Bench) -> None:
    """Its old connection is still open, and never fetches again."""
    says = with_groups(bench, "a")
    old, new = ConnectionState(), ConnectionState()
    poll(bench, [old], NOW_MS)
    bench.account.updates([says.register("b", "mb", 0)], NOW_MS + 10_000)
    poll(bench, [old], NOW_MS + 20_000)
    for second in range(21, 60):
        poll(bench, [new], NOW_MS + second * 1_000)
        bench.settle(NOW_MS + second * 1_000)
    assert {label[0] for label in bench.labels()} == {"a"}
    assert groups_of(bench, [new], NOW_MS + 60_000) == [None]


def test_a_closed_connection_takes_no_part(bench: Bench) -> None:
    with_groups(bench, "a", "b")
    connections = [ConnectionState(), ConnectionState()]
    poll(bench, connections, NOW_MS)
    poll(bench, connections, NOW_MS + 1_000)
    bench.account.closed(connections[0])
    for second in range(2, 30):
        poll(bench, connections[1:], NOW_MS + second * 1_000)
        assert bench.settle(NOW_MS + second * 1_000) == []


def test_better_evidence_takes_the_place_of_a_pairing(hasty: Bench) -> None:
    """And the other connection goes to the other group."""
    says = with_groups(hasty, "a", "b")
    connections = [ConnectionState(), ConnectionState()]
    for second in range(7):
        poll(hasty, connections, NOW_MS + second * 1_000)
        hasty.settle(NOW_MS + second * 1_000)
    assert groups_of(hasty, connections, NOW_MS + 7_000) == ["a", "b"]
    hasty.account.closed(connections[1])
    hasty.account.updates([says.withdraw("a", "ma", left=True)], NOW_MS + 7_500)
    for second in (8, 9, 10):
        poll(hasty, connections[:1], NOW_MS + second * 1_000)
        hasty.settle(NOW_MS + second * 1_000)
    assert groups_of(hasty, connections[:1], NOW_MS + 11_000) == ["b"]


def test_connections_that_began_at_different_offsets_are_not_paired(hasty: Bench) -> None:
    """If they were swapped, the groups' totals would differ by everything in between."""
    with_groups(hasty, "a", "b")
    connections = [ConnectionState(), ConnectionState()]
    for second in range(20):
        for number, connection in enumerate(connections):
            poll(hasty, [connection], NOW_MS + second * 1_000, offset=100 * number)
        hasty.settle(NOW_MS + second * 1_000)
    assert {label[0] for label in hasty.labels()} == {None}


def test_principals_are_paired_apart(hasty: Bench) -> None:
    says = Coordinator()
    for group, principal in (("a", "User:x"), ("b", "User:x"), ("c", "User:y"), ("d", "User:y")):
        hasty.account.updates([says.register(group, f"m{group}", 0, principal=principal)], NOW_MS - 60_000)
    connections = [ConnectionState("User:y"), ConnectionState("User:x"), ConnectionState("User:y")]
    for second in range(8):
        poll(hasty, connections, NOW_MS + second * 1_000)
        hasty.settle(NOW_MS + second * 1_000)
    assert groups_of(hasty, connections, NOW_MS + 9_000) == ["c", None, "d"]


@dataclass
class Stream:
    """One group's consumer: its position, and its current connection."""

    group: str
    offset: int
    begun: int
    connection: ConnectionState = field(default_factory=ConnectionState)


GROUPS = ("a", "b", "c")
STEPS = st.one_of(
    st.tuples(st.just("fetch"), st.permutations(range(len(GROUPS)))),
    st.tuples(st.just("reconnect"), st.integers(0, len(GROUPS) - 1)),
    st.tuples(st.just("position"), st.integers(0, len(GROUPS) - 1)),
    st.tuples(st.just("registered again"), st.integers(0, len(GROUPS) - 1)),
    st.tuples(st.just("wait"), st.sampled_from([200, 1_000, 6_000])),
)


@settings(max_examples=100)
@given(
    st.lists(STEPS, max_size=40),
    st.lists(st.integers(0, 3_000), min_size=len(GROUPS), max_size=len(GROUPS)),
    st.sampled_from([Kind.MEMBER, Kind.SIMPLE]),
)
def test_under_any_order_of_events_no_two_connections_are_one_groups(
    steps: list[tuple[str, Any]], offsets: list[int], kind: Kind
) -> None:
    """Identical assignments, one partition that all read to its end: totals differ by the positions, not by more.

    Except for one Fetch of a connection that was closed before another one could be seen next to it.
    """
    bench, says, now_ms = Bench(Account(sink := Sink(), Sample, pending_ms=PENDING_MS), sink), Coordinator(), NOW_MS
    bench.account.updates([says.register(group, f"m{group}", 0, kind=kind) for group in GROUPS], NOW_MS - 60_000)
    streams = [Stream(group, offset, offset) for group, offset in zip(GROUPS, offsets, strict=True)]

    def fetch(stream: Stream, count: int = 10) -> None:
        nonlocal now_ms
        now_ms += 1
        bench.fetching(stream.connection, {0: stream.offset}, at_ms=now_ms)
        bench.send(0, at_ms=now_ms, connection=stream.connection, size_bytes=count)
        stream.offset += count

    def check() -> None:
        held = [f.identity.group for s in streams for f in s.connection.fetches.values() if f.identity is not None]
        assert len(held) == len(set(held))

    for step in [*steps, ("wait", 6_000), *[("fetch", range(len(GROUPS))), ("wait", 1_000)] * 7]:
        match step:
            case "fetch", order:
                for number in order:
                    fetch(streams[number])
            case "reconnect", int(number):
                bench.account.closed(streams[number].connection)
                streams[number].connection = ConnectionState()
            case "position", int(number):
                stream = streams[number]
                position = says.position(stream.group, f"m{stream.group}", {0: stream.offset})
                bench.account.updates([position], now_ms)
            case "registered again", int(number):
                group = GROUPS[number]
                bench.account.updates([says.withdraw(group, f"m{group}")], now_ms)
                bench.account.updates([says.register(group, f"m{group}", 0, kind=kind)], now_ms)
            case "wait", int(passed_ms):
                now_ms += passed_ms
                bench.settle(now_ms)
                check()
    end = max(stream.offset for stream in streams) + 100
    for stream in streams:
        fetch(stream, end - stream.offset)
    bench.settle(now_ms + 60_000)
    totals = Counter[str | None]()
    for sample in sink.final:
        totals[sample.group] += sample.bytes
    distance = max(offsets) - min(offsets)
    reconnects = 10 * sum(step[0] == "reconnect" for step in steps)
    for stream in streams:
        off_by = abs(totals[stream.group] - (end - stream.begun))
        assert off_by <= distance + reconnects + totals[None]


def leave(bench: Bench, says: Coordinator, connections: dict[str, ConnectionState], at_ms: int) -> None:
    """Members of these groups leave, and close their connections."""
    for group, connection in connections.items():
        bench.account.updates([says.withdraw(group, f"m{group}", left=True)], at_ms)
        bench.account.closed(connection)


def test_the_group_that_leaves_first_is_known_by_the_one_that_goes_on(bench: Bench) -> None:
    """Nothing is sent to the one that goes on, so none of its bytes wait; registrations may have been late."""
    says = with_groups(bench, "g0", since_ms=NOW_MS)
    first, second = ConnectionState(opened_ms=NOW_MS), ConnectionState(opened_ms=NOW_MS + 1_100)
    poll(bench, [first], NOW_MS + 100)
    bench.account.updates([says.register("g1", "mg1", 0)], NOW_MS + 1_000)
    poll(bench, [second], NOW_MS + 1_200)
    for at_ms in range(NOW_MS + 1_500, NOW_MS + 10_000, 500):
        bench.fetching(first, {0: 10}, at_ms=at_ms)
        if at_ms < NOW_MS + 8_000:
            bench.fetching(second, {0: 10}, at_ms=at_ms)
        elif at_ms == NOW_MS + 8_000:
            leave(bench, says, {"g1": second}, at_ms)
        bench.settle(at_ms)
    assert [sample.group for sample in bench.sink.final] == ["g0", "g1"]


@pytest.mark.parametrize("number", [2, 3, 12])
def test_groups_that_begin_and_end_together_get_one_stream_each(hasty: Bench, number: int) -> None:
    groups = [f"g{each:02}" for each in range(number)]
    says = with_groups(hasty, *groups, since_ms=NOW_MS)
    connections = {group: ConnectionState(opened_ms=NOW_MS) for group in groups}
    poll(hasty, list(connections.values()), NOW_MS + 10)
    for connection in connections.values():
        hasty.fetching(connection, {0: 10}, at_ms=NOW_MS + 1_000)
    leave(hasty, says, connections, NOW_MS + 1_200)
    for second in range(2, 9):
        hasty.settle(NOW_MS + second * 1_000)
    assert Counter(label[:3:2] for label in hasty.labels()) == dict.fromkeys(
        [(group, "one_to_one") for group in groups], 1
    )


def test_groups_that_end_together_and_were_sent_different_amounts_are_not_paired(hasty: Bench) -> None:
    says = with_groups(hasty, "a", "b", since_ms=NOW_MS)
    connections = {group: ConnectionState(opened_ms=NOW_MS) for group in "ab"}
    poll(hasty, list(connections.values()), NOW_MS + 10)
    hasty.fetching(connections["b"], {0: 10}, at_ms=NOW_MS + 1_000)
    poll(hasty, [connections["a"]], NOW_MS + 1_000, offset=10)
    leave(hasty, says, connections, NOW_MS + 1_200)
    for second in range(2, 12):
        hasty.settle(NOW_MS + second * 1_000)
    assert {label[0] for label in hasty.labels()} == {None}


def test_groups_that_leave_after_one_fetch_each(hasty: Bench) -> None:
    """The first one was alone for a moment, so it is known; the next Fetch of each is under way when it leaves."""
    says = with_groups(hasty, "a", since_ms=NOW_MS - 10)
    connections = {group: ConnectionState(opened_ms=NOW_MS) for group in "abc"}
    poll(hasty, [connections["a"]], NOW_MS)
    hasty.account.updates([says.register(group, f"m{group}", 0) for group in "bc"], NOW_MS + 200)
    poll(hasty, [connections["b"], connections["c"]], NOW_MS + 300)
    hasty.account.settle(NOW_MS + 310)
    leave(hasty, says, connections, NOW_MS + 320)
    for second in range(1, 9):
        hasty.settle(NOW_MS + second * 1_000)
    assert sorted(label[0] or "" for label in hasty.labels()) == ["a", "b", "c"]


def test_a_connection_of_another_group_that_goes_on_does_not_leave_them_open(hasty: Bench) -> None:
    says = with_groups(hasty, "a", since_ms=NOW_MS - 60_000)
    stays = ConnectionState(opened_ms=NOW_MS - 60_000)
    for second in range(-60, 0):
        poll(hasty, [stays], NOW_MS + second * 1_000)
    hasty.account.updates([says.register(group, f"m{group}", 0) for group in "bc"], NOW_MS)
    connections = {group: ConnectionState(opened_ms=NOW_MS) for group in "bc"}
    poll(hasty, list(connections.values()), NOW_MS + 10)
    hasty.fetching(stays, {0: 0}, at_ms=NOW_MS + 15)
    leave(hasty, says, connections, NOW_MS + 20)
    for second in range(1, 9):
        hasty.fetching(stays, {0: 0}, at_ms=NOW_MS + second * 1_000)
        hasty.settle(NOW_MS + second * 1_000)
    assert {label[0] for label in hasty.labels()[:60]} == {"a"}
    assert sorted(label[0] or "" for label in hasty.labels()[60:]) == ["b", "c"]


def test_a_shared_connection_that_closes_is_not_paired(hasty: Bench) -> None:
    says = with_groups(hasty, "a", "b", since_ms=NOW_MS)
    connections = {group: ConnectionState(opened_ms=NOW_MS) for group in "ab"}
    poll(hasty, list(connections.values()), NOW_MS + 10)
    for connection in connections.values():
        connection.fetches["rdkafka"].is_shared = True
    leave(hasty, says, connections, NOW_MS + 20)
    for second in range(1, 12):
        hasty.settle(NOW_MS + second * 1_000)
    assert {label[::3] for label in hasty.labels()} == {(None, "ambiguous")}


def test_of_closed_connections_few_are_kept(hasty: Bench) -> None:
    """Nobody's, where no group has such a client; of a key with groups as many as are compared."""
    with_groups(hasty, "a", "b", since_ms=NOW_MS)
    kept = hasty.account._evidence_rules._one_to_one._closed
    for number in range(300):
        for client_id in ("rdkafka", f"nobody-{number}"):
            connection = ConnectionState(opened_ms=NOW_MS)
            hasty.fetching(connection, {0: 0}, at_ms=NOW_MS, client_id=client_id)
            hasty.account.closed(connection)
    assert {key: len(closed) for key, closed in kept.items()} == {(HOST, "rdkafka"): 100}
    hasty.settle(NOW_MS + 61_000)
    assert not kept

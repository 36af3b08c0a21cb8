"""Unknown readers with the address and client id of a group's member: the group gets none of their bytes."""

from __future__ import annotations

import pytest

from muster.gateway.attribution.connection import ConnectionState
from tests.attribution.bench import NOW_MS, Bench, Coordinator

PENDING_MS = 60_000


def run(bench: Bench, connections: list[ConnectionState], from_ms: int, to_ms: int, *, offset: int = 0) -> None:
    """Each continues to fetch partition 0, four times a second, and gets records; meanwhile the account is settled."""
    for at_ms in range(from_ms, to_ms, 250):
        for connection in connections:
            bench.fetching(connection, {0: offset}, at_ms=at_ms)
            bench.send(0, at_ms=at_ms, connection=connection)
        bench.settle(at_ms)


def counts(bench: Bench) -> dict[tuple[str | None, str | None], int]:
    """Return the number of sends by group and reason, when nothing is pending any more."""
    bench.account.close()
    found: dict[tuple[str | None, str | None], int] = {}
    for sample in bench.sink.final:
        name = (sample.group, sample.reason)
        found[name] = found.get(name, 0) + 1
    return found


def test_a_reader_that_comes_later_is_not_the_member(bench: Bench) -> None:
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS)
    member, reader = ConnectionState(), ConnectionState()
    run(bench, [member], NOW_MS, NOW_MS + 10_000)
    run(bench, [member, reader], NOW_MS + 10_000, NOW_MS + 20_000)
    assert counts(bench) == {("g", None): 80, (None, "not_member"): 40}


def test_a_reader_that_is_gone_at_once_was_not_the_member_either(bench: Bench) -> None:
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS)
    member, reader = ConnectionState(), ConnectionState()
    run(bench, [member], NOW_MS, NOW_MS + 10_000)
    run(bench, [reader], NOW_MS + 10_000, NOW_MS + 10_250)
    bench.account.closed(reader)
    run(bench, [member], NOW_MS + 10_250, NOW_MS + 20_000)
    assert counts(bench) == {("g", None): 79, (None, "not_member"): 1}


def test_a_reader_was_not_the_member_though_both_are_gone_before_it_is_judged_again(bench: Bench) -> None:
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS)
    member, reader = ConnectionState(), ConnectionState()
    run(bench, [member], NOW_MS, NOW_MS + 10_000)
    for connection, at_ms in ((reader, NOW_MS + 10_000), (member, NOW_MS + 10_250)):
        bench.fetching(connection, {0: 0}, at_ms=at_ms)
        bench.send(0, at_ms=at_ms, connection=connection)
        bench.account.closed(connection)
    bench.settle(NOW_MS + 10_500)
    assert counts(bench) == {("g", None): 41, (None, "not_member"): 1}


def test_a_reader_is_no_member_though_a_coordinator_is_not_heard_before_both_are_gone(bench: Bench) -> None:
    """Another group may be heard of for up to HEAR_MS, so the reader is judged when the member is gone."""
    bench.account.on_begun = lambda: None
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS)
    member, reader = ConnectionState(), ConnectionState()
    run(bench, [member], NOW_MS, NOW_MS + 10_000)
    run(bench, [reader], NOW_MS + 10_000, NOW_MS + 10_250)
    bench.account.closed(reader)
    run(bench, [member], NOW_MS + 10_250, NOW_MS + 11_500)
    bench.account.closed(member)
    for at_ms in range(NOW_MS + 12_000, NOW_MS + 15_000, 500):
        bench.settle(at_ms)
    assert counts(bench) == {("g", None): 45, (None, "not_member"): 1}


@pytest.mark.parametrize("before_ms", [2_000, 60_000])
def test_a_reader_that_was_there_first_is_not_the_member(bench: Bench, before_ms: int) -> None:
    """At most it has the label from the registration on until the member fetches as well."""
    says = Coordinator()
    member, reader = ConnectionState(), ConnectionState()
    run(bench, [reader], NOW_MS - before_ms, NOW_MS)
    bench.account.updates([says.register("g", "m", known=False)], NOW_MS)
    run(bench, [reader], NOW_MS, NOW_MS + 1_000)
    bench.account.updates([says.register("g", "m", 0)], NOW_MS + 1_000)
    run(bench, [reader, member], NOW_MS + 1_000, NOW_MS + 10_000)
    bench.settle(NOW_MS + PENDING_MS + 10_000)
    found = counts(bench)
    wrong = found["g", None] - 36
    assert wrong == 0 if before_ms > 5_000 else 0 < wrong <= (before_ms + 2_000) / 250
    assert sum(found.values()) == before_ms / 250 + 4 + 72


def test_a_members_new_connection_has_its_bytes_though_the_old_one_is_not_closed_yet(bench: Bench) -> None:
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS)
    old, new = ConnectionState(), ConnectionState()
    run(bench, [old], NOW_MS, NOW_MS + 10_000)
    run(bench, [new], NOW_MS + 10_000, NOW_MS + 20_000)
    assert counts(bench) == {("g", None): 80}


def test_a_member_that_fetched_its_offset_has_its_bytes_beside_a_client_that_was_known_before(bench: Bench) -> None:
    """The member did not fetch for a while, and the reader was taken for it."""
    says = Coordinator()
    bench.account.updates([says.register("g", "m", 0)], NOW_MS - 60_000)
    member, reader = ConnectionState(), ConnectionState()
    run(bench, [reader], NOW_MS, NOW_MS + 10_000)
    bench.account.updates([says.position("g", "m", {0: 500})], NOW_MS + 10_000)
    run(bench, [member], NOW_MS + 10_000, NOW_MS + 10_250, offset=500)
    before = counts_of(bench, reader, NOW_MS + 10_250, NOW_MS + 20_000, member)
    assert before == (39, 39)


def counts_of(
    bench: Bench, reader: ConnectionState, from_ms: int, to_ms: int, member: ConnectionState
) -> tuple[int, int]:
    """Return the number of sends to the reader that have no group, and of sends to the member that have one."""
    unattributed = named = 0
    for at_ms in range(from_ms, to_ms, 250):
        for connection in (member, reader):
            bench.fetching(connection, {0: 500}, at_ms=at_ms)
            before = len(bench.sink.waiting)
            bench.send(0, at_ms=at_ms, connection=connection)
            waits = len(bench.sink.waiting) > before
            unattributed += waits and connection is reader
            named += not waits and connection is member
        bench.settle(at_ms)
    return unattributed, named


def test_as_many_connections_as_owners_are_all_the_groups(bench: Bench) -> None:
    """The owner until a moment ago may still fetch the partition."""
    says = Coordinator()
    bench.account.updates([says.register("g", "m", 0)], NOW_MS)
    one, two, reader = ConnectionState(), ConnectionState(), ConnectionState()
    run(bench, [one], NOW_MS, NOW_MS + 10_000)
    bench.account.updates([says.register("g", "m", 1), says.register("g", "n", 0)], NOW_MS + 10_000)
    run(bench, [one, two], NOW_MS + 10_000, NOW_MS + 10_250)
    run(bench, [one, two, reader], NOW_MS + 10_250, NOW_MS + 12_250)
    assert counts(bench) == {("g", None): 58, (None, "not_member"): 8}


def test_a_reader_of_a_group_that_is_heard_of_later_gets_its_label(bench: Bench) -> None:
    """It read next to another group's member; then its own first commit identifies its group."""
    says = Coordinator()
    bench.account.updates([says.register("g", "m", 0)], NOW_MS)
    member, reader = ConnectionState(), ConnectionState()
    run(bench, [member], NOW_MS, NOW_MS + 10_000)
    run(bench, [member, reader], NOW_MS + 10_000, NOW_MS + 15_000)
    bench.account.updates(says.commit("s", {0: 10}), NOW_MS + 15_000)
    run(bench, [member, reader], NOW_MS + 15_000, NOW_MS + 20_000)
    assert counts(bench) == {("g", None): 80, ("s", None): 40}


def test_a_member_stays_the_member_after_a_rebalance_that_left_it_its_partition(bench: Bench) -> None:
    """A reader that started soon after that was closer to it than the member, which was there before."""
    says = Coordinator()
    bench.account.updates([says.register("g", "m", 0)], NOW_MS)
    member, reader = ConnectionState(), ConnectionState()
    run(bench, [member], NOW_MS, NOW_MS + 60_000)
    bench.account.updates([says.register("g", "m", 0, 1)], NOW_MS + 60_000)
    run(bench, [member], NOW_MS + 60_000, NOW_MS + 95_000)
    run(bench, [member, reader], NOW_MS + 95_000, NOW_MS + 100_000)
    assert counts(bench) == {("g", None): 400, (None, "not_member"): 20}


def test_a_client_that_fetched_before_its_registration_has_its_label_when_no_other_client_comes(bench: Bench) -> None:
    """Its session expired, and it continued to fetch until it had rejoined."""
    connection = ConnectionState()
    run(bench, [connection], NOW_MS - 20_000, NOW_MS)
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS)
    run(bench, [connection], NOW_MS, NOW_MS + 4_000)
    assert bench.labels() == []
    run(bench, [connection], NOW_MS + 4_000, NOW_MS + 7_000)
    assert counts(bench) == {("g", None): 28 + 20, (None, "no_group"): 60}


def test_an_outsider_stays_one_when_the_member_is_gone(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("g", "m", 0)], NOW_MS)
    member, reader = ConnectionState(), ConnectionState()
    run(bench, [member], NOW_MS, NOW_MS + 250)
    run(bench, [member, reader], NOW_MS + 250, NOW_MS + 10_250)
    bench.account.closed(member)
    bench.account.updates([says.withdraw("g", "m")], NOW_MS + 10_250)
    run(bench, [reader], NOW_MS + 10_250, NOW_MS + 20_250)
    assert counts(bench) == {("g", None): 41, (None, "not_member"): 80}


def test_a_member_that_connects_again_beside_an_outsider_has_its_bytes(bench: Bench) -> None:
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS)
    member, reader, again = ConnectionState(), ConnectionState(), ConnectionState()
    run(bench, [member], NOW_MS, NOW_MS + 250)
    run(bench, [member, reader], NOW_MS + 250, NOW_MS + 10_250)
    bench.account.closed(member)
    run(bench, [reader, again], NOW_MS + 10_250, NOW_MS + 20_250)
    assert counts(bench) == {("g", None): 81, (None, "not_member"): 80}


def test_a_member_that_was_silent_for_a_while_is_the_one_that_was_known_first(bench: Bench) -> None:
    """Until it had processed its records it fetched something else, and the reader was taken for it meanwhile."""
    bench.account.updates([Coordinator().register("g", "m", 0, 1)], NOW_MS)
    member, reader = ConnectionState(), ConnectionState()
    run(bench, [member], NOW_MS, NOW_MS + 10_000)
    bench.fetching(member, {1: 0}, at_ms=NOW_MS + 10_000)
    run(bench, [reader], NOW_MS + 22_000, NOW_MS + 40_000)
    run(bench, [member, reader], NOW_MS + 40_000, NOW_MS + 50_000)
    assert counts_of(bench, reader, NOW_MS + 50_000, NOW_MS + 60_000, member) == (40, 40)


def test_who_came_first_after_a_start_is_no_evidence(bench: Bench) -> None:
    """The gateway learned of the member from a snapshot; it gets its label when the reader has disconnected."""
    bench.account.replace(7, 1, [Coordinator().register("g", "m", 0)], NOW_MS)
    member, reader = ConnectionState(), ConnectionState()
    run(bench, [reader], NOW_MS, NOW_MS + 250)
    run(bench, [reader, member], NOW_MS + 250, NOW_MS + 10_000)
    assert len([group for group, *_ in bench.labels() if group is not None]) < 6
    bench.account.closed(reader)
    run(bench, [member], NOW_MS + 10_000, NOW_MS + 20_000)
    assert bench.labels()[-1] == ("g", "m", "unique_candidate", None)

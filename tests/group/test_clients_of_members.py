"""The origin of a member's requests: principal, host and client id of its registration; what OffsetFetch shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.placement.mapping.registration import Kind, Position, Registration, SimpleCommit
from tests.group.driver import HOST, Driver, G, assignment, beat, commit, fetch, join, leave, sync

Make = Callable[..., Driver]


def _only(driver: Driver) -> Registration:
    (registration,) = driver.core.registrations()
    return registration


def _positions(driver: Driver) -> list[Position]:
    return [update for update in driver.updates if isinstance(update, Position)]


def _commits(driver: Driver) -> list[SimpleCommit]:
    return [update for update in driver.updates if isinstance(update, SimpleCommit)]


def test_the_principal_is_that_of_the_members_connection(driver: Driver) -> None:
    given = driver.exchange(join(), principal="User:ann")
    token = driver.park(join(given.member_id), principal="User:ann")
    driver.advance(3000)
    assert driver.response(token).generation_id == 1
    assert _only(driver).principal == "User:ann"


@pytest.mark.parametrize("request_of", ["heartbeat", "sync", "commit", "join"])
def test_after_loading_the_principal_is_unknown_until_the_next_request_and_then_said_once(
    driver: Driver, request_of: str
) -> None:
    (a,) = driver.stable()
    driver.restart()
    assert _only(driver).principal is None
    said = len(driver.updates)
    requests = {
        "heartbeat": lambda: driver.exchange(beat(a, 1), principal="User:ann"),
        "sync": lambda: driver.exchange(sync(a, 1), principal="User:ann"),
        "commit": lambda: driver.exchange(commit({("t", 0): 5}, member_id=a, generation=1), principal="User:ann"),
        "join": lambda: driver.send(join(a), principal="User:ann"),
    }
    requests[request_of]()
    driver.exchange(beat(a, 1), principal="User:ann")
    (update,) = driver.updates[said:]
    assert update == _only(driver)
    assert (update.principal, update.partitions, update.epoch) == ("User:ann", {("t", 0)}, 2)


def test_a_refused_request_says_nothing_of_the_member(driver: Driver) -> None:
    (a,) = driver.stable()
    driver.restart()
    driver.exchange(beat(a, 99), principal="User:mallory")
    assert _only(driver).principal is None


def test_a_null_client_id_is_null_again_after_loading(driver: Driver) -> None:
    given = driver.exchange(join(), client=None)
    token = driver.park(join(given.member_id), client=None)
    driver.advance(3000)
    a = driver.response(token).member_id
    driver.exchange(sync(a, 1, {a: assignment(("t", 0))}), client=None)
    assert _only(driver).client_id is None
    driver.restart()
    assert _only(driver).client_id == "", "the record has no null"
    driver.exchange(beat(a, 1), client=None)
    assert _only(driver).client_id is None


def test_the_next_process_of_a_static_member_is_registered_where_it_is(driver: Driver) -> None:
    driver.stable_static("I")
    assert _only(driver).host == HOST
    driver.exchange(join(instance="I"), host="10.0.0.99", client="new", principal="User:ann")
    registration = _only(driver)
    assert (registration.host, registration.client_id, registration.principal) == ("10.0.0.99", "new", "User:ann")


def test_simple_consumers_of_different_principals_and_ids_are_different(driver: Driver) -> None:
    for client in (None, "", "x"):
        for principal in ("User:ANONYMOUS", "User:ann"):
            driver.exchange(commit({("t", 1): 5}), client=client, principal=principal)
    known = {(r.client_id, r.principal) for r in driver.core.registrations()}
    assert known == {(client, who) for client in (None, "", "x") for who in ("User:ANONYMOUS", "User:ann")}


def test_an_offset_fetch_on_the_members_connection_says_where_it_begins(driver: Driver) -> None:
    a, b = driver.stable(2)
    driver.exchange(beat(a, 1), connection="1-5")
    driver.exchange(beat(b, 1), connection="1-6")
    driver.exchange(commit({("t", 0): 5, ("t", 1): 7}, member_id=a, generation=1), connection="1-5")
    driver.exchange(fetch(("t", 0), ("t", 1), ("t", 2)), connection="1-6")
    (position,) = _positions(driver)
    assert position.member_id == b
    assert position.topics == (("t", (0, 1), (5, 7)),), "what has no offset is not said"
    assert (position.host, position.client_id, position.principal) == (HOST, "c", "User:ANONYMOUS")
    assert position.sequence > max(r.sequence for r in driver.core.registrations())
    assert not position.is_hint


def test_an_offset_fetch_elsewhere_is_of_the_one_of_that_client_that_owns_the_partitions(driver: Driver) -> None:
    tokens = [driver.new_member() for _ in range(2)]
    joins = driver.responses_to(tokens)
    shares = {j.member_id: assignment(("t", index)) for index, j in enumerate(joins)}
    driver.sync_all(joins, shares.__getitem__)
    driver.exchange(commit({("t", 0): 5, ("t", 1): 7}, member_id=joins[0].member_id, generation=1))
    driver.exchange(fetch(("t", 1)), connection="1-9")
    assert [(p.member_id, p.topics) for p in _positions(driver)] == [(joins[1].member_id, (("t", (1,), (7,)),))]
    assert _positions(driver)[0].is_hint, "an admin tool with its client id may have sent it"
    driver.exchange(fetch(("t", 0), ("t", 1)), connection="1-9")
    driver.exchange(fetch(("t", 1)), connection="1-9", client="another")
    driver.exchange(fetch(("t", 1)), connection="1-9", principal="User:ann")
    driver.exchange(fetch(("t", 1)), connection="1-9", host="10.0.0.99")
    assert len(_positions(driver)) == 1, "two owners, or another client: which member fetches is unknown"


def test_a_client_that_fetches_everything_is_a_tool(driver: Driver) -> None:
    (a,) = driver.stable()
    driver.exchange(commit({("t", 0): 5}, member_id=a, generation=1))
    driver.exchange(fetch(everything=True))
    assert _positions(driver) == []


def test_the_connection_of_a_member_that_left_is_no_evidence(driver: Driver) -> None:
    a, b = driver.stable(2)
    driver.exchange(beat(a, 1), connection="1-5")
    driver.advance(9_000)
    driver.exchange(beat(b, 1), connection="1-6")
    driver.exchange(commit({("t", 5): 5}, member_id=b, generation=1))
    driver.advance(9_000)
    assert set(driver.group().members) == {b}
    driver.exchange(fetch(("t", 5)), connection="1-5")
    assert _positions(driver) == []


def test_a_commit_says_how_far_a_simple_consumer_has_read(driver: Driver) -> None:
    driver.exchange(commit({("t", 0): 3, ("t", 1): 5}), client="x", connection="1-9")
    assert _only(driver).kind is Kind.SIMPLE
    (said,) = _commits(driver)
    assert (said.group, said.member_id, said.connection) == (G, f"{HOST}/x", "1-9")
    assert (said.principal, said.host, said.client_id) == ("User:ANONYMOUS", HOST, "x")
    assert said.positions == (("t", 0, 3), ("t", 1, 5))
    assert said.sequence > _only(driver).sequence


def test_commits_of_one_connection_are_said_once_a_second(driver: Driver) -> None:
    for offset in (3, 5):
        driver.exchange(commit({("t", 0): offset}), connection="1-9")
        driver.exchange(commit({("t", 0): offset + 1}), connection="1-7")
    driver.advance(1_000)
    driver.exchange(commit({("t", 0): 7}), connection="1-9")
    assert [(said.connection, said.positions[0][2]) for said in _commits(driver)] == [
        ("1-9", 3),
        ("1-7", 4),
        ("1-9", 7),
    ]


def test_partitions_that_are_committed_one_by_one_are_all_said(driver: Driver) -> None:
    """The records of each may come from another gateway."""
    for index in (0, 1, 0):
        driver.exchange(commit({("t", index): driver.now_ms}), connection="1-9")
    assert [[index for _, index, _ in said.positions] for said in _commits(driver)] == [[0], [1]]


def test_a_commit_of_what_was_committed_before_is_not_said(driver: Driver) -> None:
    """A client that begins commits where it begins, and a tool may set the group back: nothing was sent to them."""
    driver.exchange(commit({("t", 0): 5}), connection="1-9")
    for offset in (5, 2):
        driver.advance(1_000)
        driver.exchange(commit({("t", 0): offset, ("t", 1): 4}), connection="1-7")
    assert [said.positions for said in _commits(driver)] == [(("t", 0, 5),), (("t", 1, 4),)]


def test_a_members_commit_is_no_simple_consumers(driver: Driver) -> None:
    (a,) = driver.stable()
    driver.exchange(commit({("t", 0): 5}, member_id=a, generation=1))
    assert _commits(driver) == []


def test_an_offset_fetch_without_a_member_shows_nothing(driver: Driver) -> None:
    """A tool sends it for a group that others consume for."""
    driver.exchange(commit({("t", 1): 5}), client="app")
    said = len(driver.updates)
    driver.exchange(fetch(("t", 1)), client="tool")
    driver.exchange(fetch(("t", 1)), client="app")
    assert driver.updates[said:] == []


@pytest.mark.parametrize("leaves", [0, 1])
def test_members_on_one_connection_are_not_taken_for_each_other(driver: Driver, leaves: int) -> None:
    """Not until one has left, in whichever order they were heard."""
    members = driver.stable(2)
    for member in (*members, *members):
        driver.exchange(beat(member, 1), connection="1-5")
    driver.exchange(commit({("t", 5): 5}, member_id=members[0], generation=1), connection="1-5")
    driver.exchange(fetch(("t", 5)), connection="1-5")
    assert _positions(driver) == []
    driver.exchange(leave(members[leaves]), connection="1-5")
    driver.exchange(fetch(("t", 5)), connection="1-5")
    assert [position.member_id for position in _positions(driver)] == [members[1 - leaves]]

"""Series are bounded, those of removed groups are removed, and every byte stays counted."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.actors.tables.rollup import Sample
from muster.gateway.attribution.account import Account
from muster.gateway.attribution.ambiguity import shared
from muster.gateway.attribution.connection import ConnectionState
from muster.gateway.attribution.series import MAX_GROUP_CHARS, OTHER_PRINCIPALS, PrincipalBook, group_label
from tests.attribution.bench import CLIENT, HOST, NOW_MS, Coordinator, Sink

RETENTION_MS = 600_000
GONE_MS = RETENTION_MS + RETENTION_MS // 8 + 2
"""After this time, a missing client has been noticed."""


def account_with(**bounds: int) -> Account[Sample]:
    return Account(Sink(), Sample, series_retention_ms=RETENTION_MS, **bounds)


def send(
    account: Account[Sample],
    partition: int = 0,
    *,
    at_ms: int = NOW_MS,
    connection: ConnectionState | None = None,
    client_id: str | None = CLIENT,
    size_bytes: int = 100,
) -> ConnectionState:
    connection = connection or ConnectionState()
    account.sent(connection, HOST, client_id, [("t", partition, 0, 0, 9, 10, size_bytes, 2, 0, 0)], at_ms)
    check(account)
    return connection


def check(account: Account[Sample]) -> None:
    """Check the equation of the account, for bytes, messages and (except for pending ones) batches."""
    books = account.snapshot()
    for place, sent in books.sent.items():
        parts: list[Any] = [total for series, total in books.groups.items() if series[2:] == place]
        parts += [total for series, total in books.reasons.items() if series[1:] == place]
        parts += [found[place] for found in (books.overflow, books.removed, books.pending) if place in found]
        assert (sent.messages, sent.bytes) == (sum(part.messages for part in parts), sum(part.bytes for part in parts))
        if place not in books.pending or not books.pending[place].bytes:
            assert sent.entries == sum(getattr(part, "entries", 0) for part in parts)
    assert sum(total.bytes for total in books.sent.values()) == sum(total.bytes for total in books.principals.values())


def groups(account: Account[Sample]) -> dict[str, int]:
    """Bytes by group."""
    found: dict[str, int] = {}
    for (group, *_), total in account.snapshot().groups.items():
        found[group] = found.get(group, 0) + total.bytes
    return found


def test_the_series_of_a_group_that_is_gone_go_and_its_bytes_stay_in_the_books() -> None:
    account, says = account_with(), Coordinator()
    account.updates([says.register("g", "m", 0, 1)], NOW_MS)
    connection = send(account, 0)
    send(account, 1, connection=connection)
    account.updates([says.withdraw("g", "m")], NOW_MS + 1_000)
    account.settle(NOW_MS + RETENTION_MS - 1)
    assert groups(account) == {"g": 200}
    account.settle(NOW_MS + GONE_MS)
    assert groups(account) == {}
    assert {place: total.bytes for place, total in account.snapshot().removed.items()} == {("t", 0): 100, ("t", 1): 100}
    check(account)


def test_what_was_sent_and_never_looked_at_is_in_the_books_when_its_series_goes() -> None:
    account, says = account_with(), Coordinator()
    account.updates([says.register("g", "m", 0)], NOW_MS)
    account.sent(ConnectionState(), HOST, CLIENT, [("t", 0, 0, 0, 9, 10, 100, 2, 0, 0)], NOW_MS)
    account.updates([says.withdraw("g", "m")], NOW_MS + 1_000)
    account.settle(NOW_MS + GONE_MS)
    assert groups(account) == {}
    check(account)


def test_a_group_with_a_client_keeps_its_series_however_idle_and_for_the_retention_after_it() -> None:
    account, says = account_with(), Coordinator()
    account.updates([says.register("g", "m", 0)], NOW_MS)
    send(account)
    for hour in range(1, 5):
        account.settle(NOW_MS + hour * 3_600_000)
    left_ms = NOW_MS + 4 * 3_600_000 + 1
    account.updates([says.withdraw("g", "m")], left_ms)
    account.settle(left_ms + RETENTION_MS // 2)
    assert groups(account) == {"g": 100}
    account.settle(left_ms + GONE_MS)
    assert groups(account) == {}


def test_a_group_that_returns_begins_a_new_series() -> None:
    account, says = account_with(), Coordinator()
    account.updates([says.register("g", "m", 0)], NOW_MS)
    send(account)
    account.updates([says.withdraw("g", "m")], NOW_MS)
    account.settle(NOW_MS + GONE_MS)
    back_ms = NOW_MS + GONE_MS + 1
    account.updates([says.register("g", "m", 0)], back_ms)
    send(account, at_ms=back_ms, size_bytes=7)
    ((_, total),) = account.snapshot().groups.items()
    assert (total.bytes, total.since_ms) == (7, back_ms)


def test_a_connection_that_was_quiet_while_its_series_went_adds_to_the_new_one() -> None:
    """The connection's copy of its verdict must not lead to a removed series."""
    account, says = account_with(), Coordinator()
    account.updates([says.register("g", "m", 0)], NOW_MS)
    connection = send(account)
    account.updates([says.withdraw("g", "m")], NOW_MS + 1)
    account.settle(NOW_MS + GONE_MS)
    account.updates([says.register("g", "m", 0)], NOW_MS + GONE_MS)
    send(account, connection=connection, at_ms=NOW_MS + GONE_MS + 1, size_bytes=7)
    assert groups(account) == {"g": 7}


def test_beyond_the_bound_bytes_are_counted_without_their_group() -> None:
    account, says = account_with(max_group_series=2), Coordinator()
    for number in range(4):
        client_id = f"c{number}"
        account.updates([says.register(f"g{number}", "m", 0, client_id=client_id)], NOW_MS)
        connection = send(account, client_id=client_id)
        account.closed(connection)
    send(account, client_id="c0")
    books = account.snapshot()
    assert groups(account) == {"g0": 200, "g1": 100}
    assert books.overflow["t", 0].bytes == 200
    assert (books.folded, account.folded) == (2, 2)


def test_when_there_is_room_again_a_group_gets_its_series() -> None:
    account, says = account_with(max_group_series=1), Coordinator()
    for name in ("a", "b"):
        account.updates([says.register(name, "m", 0, client_id=name)], NOW_MS)
        connection = send(account, client_id=name)
    account.updates([says.withdraw("a", "m")], NOW_MS + 1)
    account.settle(NOW_MS + GONE_MS)
    send(account, connection=connection, client_id="b", at_ms=NOW_MS + GONE_MS, size_bytes=7)
    assert groups(account) == {"b": 7}
    assert account.folded == 0


def test_what_settles_late_obeys_the_bound_too() -> None:
    account, says = account_with(max_group_series=0), Coordinator()
    send(account)
    account.updates([says.register("g", "m", 0)], NOW_MS + 1_000)
    check(account)
    assert account.snapshot().overflow["t", 0].bytes == 100


STEPS = st.one_of(
    st.tuples(st.just("register"), st.integers(0, 4), st.sets(st.integers(0, 2), max_size=3)),
    st.tuples(st.just("withdraw"), st.integers(0, 4)),
    st.tuples(st.just("send"), st.integers(0, 1), st.integers(0, 4), st.integers(0, 2), st.integers(1, 1_000)),
    st.tuples(st.just("wait"), st.sampled_from([1, 1_000, 61_000, RETENTION_MS // 2, GONE_MS])),
)


@settings(max_examples=100)
@given(st.lists(STEPS, max_size=60), st.integers(0, 5))
def test_any_history_with_few_series_conserves_every_byte(steps: list[tuple[Any, ...]], bound: int) -> None:
    account, says, now_ms = account_with(max_group_series=bound), Coordinator(), NOW_MS
    connections = [ConnectionState(), ConnectionState()]
    for kind, *step in steps:
        match kind, step:
            case "register", (number, partitions):
                registration = says.register(f"g{number}", "m", *partitions, client_id=f"c{number}")
                account.updates([registration], now_ms)
            case "withdraw", (number,):
                account.updates([says.withdraw(f"g{number}", "m")], now_ms)
            case "send", (connection, number, partition, size_bytes):
                connections[connection] = send(
                    account,
                    partition,
                    at_ms=now_ms,
                    connection=connections[connection],
                    client_id=f"c{number}",
                    size_bytes=size_bytes,
                )
            case "wait", (passed_ms,):
                now_ms += passed_ms
                account.settle(now_ms)
        check(account)
        assert len(account.snapshot().groups) <= bound


def test_no_group_can_have_the_label_of_another_that_is_cut() -> None:
    long = "g" * 20_000
    cut = group_label(long)
    assert len(cut) > MAX_GROUP_CHARS
    assert cut not in {group_label(long[:length]) for length in range(len(cut) + 2)}
    assert cut != group_label(cut)
    assert group_label("g" * MAX_GROUP_CHARS) == "g" * MAX_GROUP_CHARS


def test_clients_of_several_groups_are_counted_while_they_are_and_reported_once_an_hour() -> None:
    """F5: two groups on one host with their library's default id."""
    account, says = account_with(), Coordinator()
    account.updates([says.register("a", "ma", 0), says.register("lone", "m", 1, client_id="x")], NOW_MS)
    account.settle(NOW_MS)
    assert account.ambiguous_clients() == 0
    account.updates([says.register("b", "mb", 1)], NOW_MS)
    account.settle(NOW_MS)
    assert account.ambiguous_clients() == 1
    ((key, named),) = [(found.key, found.groups) for found in account.ambiguous.news(NOW_MS)]
    assert (key, named) == ((HOST, CLIENT), ("a", "b"))
    assert not account.ambiguous.news(NOW_MS + 1_000)
    account.settle(NOW_MS + 3_600_000)
    assert account.ambiguous.news(NOW_MS + 3_600_000)
    account.updates([says.withdraw("b", "mb")], NOW_MS + 3_600_000)
    account.settle(NOW_MS + 3_700_000)
    assert account.ambiguous_clients() == 0


def test_groups_of_different_principals_are_distinguished() -> None:
    assert shared({("a", "User:x"), ("b", "User:y")}) == set()
    assert shared({("a", "User:x"), ("b", "User:x"), ("c", "User:y")}) == {"a", "b"}
    assert shared({("a", None), ("b", "User:x"), ("c", "User:y")}) == {"a", "b", "c"}
    assert shared({("a", None), ("b", None)}) == {"a", "b"}
    assert shared({("a", None), ("a", "User:x")}) == set()


def test_bytes_of_a_principal_need_no_evidence() -> None:
    account = account_with()
    for name, size_bytes in (("User:ann", 100), ("User:bob", 20), ("User:bob", 3)):
        send(account, connection=ConnectionState(name), size_bytes=size_bytes)
    found = {name: total.bytes for name, total in account.snapshot().principals.items()}
    assert found == {("User:ann", "t"): 100, ("User:bob", "t"): 23}


def test_principals_beyond_the_limit_are_counted_together() -> None:
    book = PrincipalBook(max_series=2)
    for number, name in enumerate(("ann", "bob", "eve", "ann", "zoe"), start=1):
        book.cell(name, "t", NOW_MS).add(1, number, 1)
    found = {name: cell.bytes for (name, _), cell in book.cells.items()}
    assert found == {"ann": 5, "bob": 2, OTHER_PRINCIPALS: 8}

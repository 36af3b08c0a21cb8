"""The account balances at any time, and bytes that precede their evidence are settled by it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.actors.tables.spool import Sample, SampleStore
from muster.gateway.attribution.account import Account
from muster.gateway.attribution.connection import ConnectionState
from muster.gateway.attribution.evidence_rules import EvidenceRules
from muster.gateway.attribution.pending_attributions import Pending, PendingAttributions
from muster.gateway.attribution.table import RegistrationTable
from muster.gateway.attribution.verdict import Reason, Verdict
from muster.placement.mapping.registration import Kind
from tests.attribution.bench import CLIENT, HOST, NOW_MS, Bench, Coordinator, Sink


def test_a_update_settles_what_waited_for_it(bench: Bench) -> None:
    """F14: KoP keeps the negative answer for the connection's life."""
    connection = bench.send(0)
    bench.send(0, at_ms=NOW_MS + 10, connection=connection)
    bench.send(0, at_ms=NOW_MS + 20, client_id="another id")
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS + 500)
    bench.check()
    assert bench.labels() == [("g", "m", "unique_candidate", None)] * 2
    assert bench.account.pending()["t", 0].bytes == 100
    bench.send(0, at_ms=NOW_MS + 600, connection=connection)
    assert len(bench.sink.final) == 3


def test_a_snapshot_settles_what_waited_for_it(bench: Bench) -> None:
    bench.send(0)
    bench.account.replace(7, 1, [Coordinator().register("g", "m", 0)], NOW_MS + 59_000)
    assert bench.labels() == [("g", "m", "unique_candidate", None)]


def test_nothing_waits_longer_than_its_time(bench: Bench) -> None:
    bench.send(0)
    bench.account.settle(NOW_MS + 59_999)
    assert len(bench.sink.waiting) == 1
    bench.account.settle(NOW_MS + 60_000)
    assert not bench.sink.waiting
    bench.account.updates([Coordinator().register("g", "m", 0)], NOW_MS + 60_001)
    assert bench.labels() == [(None, None, "none", "no_group")]
    bench.check()


def test_a_response_without_batches_leaves_no_trace(bench: Bench) -> None:
    bench.account.sent(ConnectionState(), HOST, CLIENT, [], NOW_MS)
    assert not bench.account.totals()
    assert not bench.sink.waiting


def test_closing_settles_what_waits_with_its_reason(bench: Bench) -> None:
    bench.send(0)
    bench.account.close()
    bench.check()
    assert bench.labels() == [(None, None, "none", "no_group")]


def test_a_current_verdict_is_dropped_with_the_first_change_of_its_key(bench: Bench) -> None:
    says = Coordinator()
    bench.account.updates([says.register("a", "ma", 0)], NOW_MS)
    connection = bench.send(0)
    bench.account.updates([says.withdraw("a", "ma"), says.register("b", "mb", 0)], NOW_MS + 1)
    bench.send(0, at_ms=NOW_MS + 40_000, connection=connection)
    assert [label[0] for label in bench.labels()] == ["a", "b"]


def test_what_is_too_much_gives_up_the_oldest() -> None:
    pending_attributions = PendingAttributions(EvidenceRules(RegistrationTable()), max_sends=3)
    connection = ConnectionState()
    waiting = Verdict.none(Reason.NO_GROUP)
    given_up = []
    for number in range(5):
        at_ms = NOW_MS + number * 10_000
        entry = Pending(connection, HOST, CLIENT, "t", 0, at_ms, waiting, 1, 10, [number])
        given_up += pending_attributions.add(entry)
    assert [(s.entry.handles, s.verdict.reason) for s in given_up] == [([0], Reason.EXPIRED), ([1], Reason.EXPIRED)]
    assert len(pending_attributions) == 3
    assert pending_attributions.pending()["t", 0].bytes == 30


def test_the_books_and_the_samples_table_say_the_same(tmp_path: Path) -> None:
    store = SampleStore(tmp_path, 0, flush_ms=1_000, now_ms=lambda: NOW_MS)
    account = Account(store, Sample)
    connection = ConnectionState()
    account.sent(connection, HOST, CLIENT, [("t", 0, 0, 0, 9, 10, 100, 1, 0, 0)], NOW_MS)
    account.sent(connection, HOST, CLIENT, [("t", 1, 0, 0, 4, 5, 50, 1, 0, 0)], NOW_MS)
    account.updates([Coordinator().register("g", "m", 0)], NOW_MS + 1_000)
    account.sent(connection, HOST, CLIENT, [("t", 0, 10, 10, 19, 10, 100, 1, 0, 0)], NOW_MS + 2_000)
    account.close()
    store.close()
    rows = pyarrow.dataset.dataset(tmp_path / "samples").to_table().to_pylist()
    labels = ("group", "reason", "evidence", "topic", "partition")
    for unit in ("messages", "bytes"):
        table: Counter[tuple[object, ...]] = Counter()
        for row in rows:
            table[tuple(row[name] for name in labels)] += row[unit]
        assert table == {series: getattr(amount, unit) for series, amount in account.settled().items()}
        assert table.total() == {"messages": 25, "bytes": 250}[unit]


GROUPS = st.sampled_from(["a", "b"])
MEMBERS = st.sampled_from(["m", "n"])
PARTITIONS = st.sets(st.integers(0, 2), max_size=3)
CLIENTS = st.sampled_from([None, "", "rdkafka"])
STEPS = st.one_of(
    st.tuples(st.just("register"), GROUPS, MEMBERS, PARTITIONS, CLIENTS, st.booleans(), st.sampled_from(Kind)),
    st.tuples(st.just("withdraw"), GROUPS, MEMBERS),
    st.tuples(st.just("snapshot"), GROUPS, MEMBERS, PARTITIONS, CLIENTS),
    st.tuples(st.just("send"), st.integers(0, 1), CLIENTS, st.integers(0, 2), st.integers(0, 1_000)),
    st.tuples(st.just("group request"), st.integers(0, 1), CLIENTS, GROUPS),
    st.tuples(st.just("reconnect"), st.integers(0, 1)),
    st.tuples(st.just("wait"), st.sampled_from([1, 900, 5_000, 31_000, 61_000])),
)


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=60), st.integers(1, 10))
def test_any_history_conserves_every_byte(steps: list[tuple[Any, ...]], max_sends: int) -> None:
    sink = Sink()
    account = Account(sink, Sample, max_pending_sends=max_sends)
    bench, says, now_ms = Bench(account, sink), Coordinator(), NOW_MS
    connections = [ConnectionState(), ConnectionState()]
    claimed: dict[str, set[int]] = {"a": set(), "b": set()}
    for kind, *step in steps:
        match kind, step:
            case "register", (group, member, partitions, client_id, known, registration_kind):
                update = says.register(
                    group, member, *partitions, client_id=client_id, known=known, kind=registration_kind
                )
                account.updates([update], now_ms)
                claimed[group] |= partitions if known else {0, 1, 2}
            case "withdraw", (group, member):
                account.updates([says.withdraw(group, member)], now_ms)
            case "snapshot", (group, member, partitions, client_id):
                says.epoch += 1
                account.replace(7, says.epoch, [says.register(group, member, *partitions, client_id=client_id)], now_ms)
                claimed[group] |= partitions
            case "send", (number, client_id, partition, size):
                account.sent(
                    connections[number],
                    HOST,
                    client_id,
                    [("t", partition, 0, 0, size, size, size * 7, 1, 0, 0)],
                    now_ms,
                )
            case "group request", (number, client_id, group):
                account.group_request(connections[number], HOST, client_id, group)
            case "reconnect", (number,):
                connections[number] = ConnectionState()
            case "wait", (passed_ms,):
                now_ms += passed_ms
                account.settle(now_ms)
        bench.check()
        assert len(sink.waiting) <= max_sends
        assert all(sample.group is None or sample.partition in claimed[sample.group] for sample in sink.final)
    account.settle(now_ms + 60_000)
    bench.check()
    assert not sink.waiting
    assert all((sample.group is None) != (sample.reason is None) for sample in sink.final)

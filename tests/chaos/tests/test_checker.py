"""Each rule of the chaos checker with a history that keeps it and one that violates it, written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest

from tests.chaos.checker import RULES, check
from tests.chaos.history import (
    Acked,
    Assigned,
    Call,
    Commit,
    Fetched,
    History,
    Life,
    Read,
    Sample,
    Sent,
    Transformed,
    read_history,
)
from tests.chaos.journal import SEND_OFFSETS, Journal, now_s
from tests.chaos.payload import name_of, value_of
from tests.chaos.rules.calls import BOUND_S
from tests.chaos.rules.commits import UNRESOLVED_S
from tests.chaos.rules.violation import MOST
from tests.chaos.tests.transactions import ALLOWED_TRANSACTIONS, BROKEN_TRANSACTIONS, with_transactions
from tests.chaos.workers.spec import EXIT_ABANDONED

T0 = ("t", 0)
P = "p.1/t-0"
"""The name under which the producer p.1 numbers its records of T0."""


def sound() -> History:
    """Three records, sent, acknowledged, read by both members of a group and committed."""
    names = [f"{P}:{number}" for number in range(3)]
    return History(
        topics={"t": 1},
        groups={"g": ("t",)},
        lives={
            "p.1": Life("p.1", "producer", "confluent", idempotent=True, start_s=0, end_s=20, written_s=[1, 2, 19]),
            "a.1": Life("a.1", "consumer", "confluent", "g", "manual", start_s=0, end_s=20, written_s=[1, 2, 19]),
            "b.1": Life("b.1", "consumer", "aiokafka", "g", "manual", start_s=0, end_s=20, written_s=[1, 2, 19]),
        },
        sent=[Sent(P, T0, 0, 2, 1.0)],
        acked=[Acked(name, T0, offset, 2.0) for offset, name in enumerate(names)],
        reads=[
            Read("a.1", "g", T0, 0, names[0], 3.0),
            Read("a.1", "g", T0, 1, names[1], 3.0),
            Read("b.1", "g", T0, 1, names[1], 6.0),
            Read("b.1", "g", T0, 2, names[2], 6.0),
        ],
        final={T0: list(enumerate(names))},
        commits=[
            Commit("a.1", "g", T0, 1, 1, 3.1, 3.2, True),
            Commit("a.1", "g", T0, 2, 1, 4.0, inf, False),
            Commit("b.1", "g", T0, 3, 2, 6.1, 6.2, True),
        ],
        fetched=[
            Fetched("g", T0, -1, 2.0, 2.1),
            Fetched("g", T0, 1, 3.5, 3.6),
            Fetched("g", T0, 3, 7.0, 7.1),
        ],
        assigned=[Assigned("g", 1, "member-a", (T0,), "a.1", 2.5), Assigned("g", 2, "member-b", (T0,), "b.1", 5.5)],
        described=[("g", {"member-b": [T0], "member-a": []})],
        samples=[
            Sample("offsets-0", 10, 1.0, 100 << 20, 40, 20),
            Sample("offsets-1", 11, 18.0, 110 << 20, 44, 20),
        ],
        phases={"warm": 0.0, "faults": 5.0, "quiet": 15.0, "end": 20.0},
        drained={"g": True},
    )


def _moved(history: History) -> None:
    history.final[T0] = [(0, f"{P}:0"), (1, f"{P}:2"), (2, f"{P}:1")]


def _lost(history: History) -> None:
    history.final[T0].pop()


def _lost_without_offset(history: History) -> None:
    history.acked.append(Acked(f"{P}:9", T0, -1, 2.0))


def _seen_otherwise(history: History) -> None:
    history.reads.append(Read("b.1", "g", T0, 0, f"{P}:1", 6.0))


def _two_readers_disagree(history: History) -> None:
    history.reads += [Read("a.1", "g", T0, 7, f"{P}:1", 3.0), Read("b.1", "g", T0, 7, f"{P}:2", 6.0)]


def _never_sent(history: History) -> None:
    history.reads.append(Read("a.1", "g", T0, 3, f"{P}:3", 3.0))


def _sent_elsewhere(history: History) -> None:
    history.sent = [Sent(P, ("t", 1), 0, 2, 1.0)]


def _garbage(history: History) -> None:
    history.final[T0].append((3, "\x00\x01"))


def _not_read(history: History) -> None:
    history.reads.pop()


def _read_by_another_group(history: History) -> None:
    history.reads[-1] = history.reads[-1]._replace(group="h")


def _twice(history: History) -> None:
    history.final[T0].append((3, f"{P}:2"))


def _out_of_order(history: History) -> None:
    history.acked.clear()
    history.reads.clear()
    history.final[T0] = [(0, f"{P}:1"), (1, f"{P}:0")]


def _gap(history: History) -> None:
    history.final[T0].append((4, f"{P}:9"))


def _commit_lost(history: History) -> None:
    history.fetched[-1] = history.fetched[-1]._replace(offset=1)


def _commit_gone(history: History) -> None:
    history.fetched[-1] = history.fetched[-1]._replace(offset=-1)


def _back_at_the_start(history: History) -> None:
    history.fetched[-1] = history.fetched[-1]._replace(offset=0)


def _found_and_lost(history: History) -> None:
    """Lose a commit that was observed: an observation counts like an acknowledgement, even if the response was lost."""
    history.fetched[1:] = [Fetched("g", T0, 2, 4.5, 4.6), Fetched("g", T0, 1, 5.0, 5.1)]


def _late_effect_of_an_old_generation(history: History) -> None:
    """Let the unanswered commit of 2 in generation 1 take effect, which ends once generation 2 is assigned."""
    history.fetched[-1] = history.fetched[-1]._replace(offset=2)


def _late_effect_after_ages(history: History) -> None:
    history.assigned.clear()
    later_s = UNRESOLVED_S + 10
    history.commits[-1] = Commit("b.1", "g", T0, 3, 2, later_s, later_s + 1, True)
    history.fetched[-1] = Fetched("g", T0, 2, later_s + 2, later_s + 3)


def _never_committed(history: History) -> None:
    history.fetched[-1] = history.fetched[-1]._replace(offset=77)


def _not_drained(history: History) -> None:
    history.drained["g"] = False


def _two_owners(history: History) -> None:
    history.assigned.append(Assigned("g", 2, "member-a", (T0,), "a.1", 5.6))


def _two_owners_described(history: History) -> None:
    history.described.append(("g", {"member-b": [T0], "member-a": [T0]}))


def _hangs(history: History) -> None:
    history.lives["a.1"].written_s[-1:] = []
    history.lives["a.1"].end_s = 2 + BOUND_S + 1


def _hangs_in_a_call(history: History) -> None:
    life = history.lives["a.1"]
    life.calls.append(Call("commit", 2, inf, 10.0))
    life.written_s, life.end_s = [1, 2], 2 + BOUND_S + 11


def _gives_up(history: History) -> None:
    history.lives["b.1"].fatal = "UnknownError"


def _crashes(history: History) -> None:
    history.lives["b.1"].exit_code = -11


def _abandons(history: History, name: str = SEND_OFFSETS, until_s: float = 19.0) -> None:
    history.lives["a.1"].abandoned = Call(name, 4.0, until_s, 10.0)
    history.lives["a.1"].exit_code = EXIT_ABANDONED


def _abandons_before_the_outage(history: History) -> None:
    _abandons(history, until_s=5.0)
    history.down.append((6.0, 9.0))


def _abandons_another_call(history: History) -> None:
    _abandons(history, "commit_transaction")
    history.down.append((6.0, 9.0))


def _is_dead(history: History) -> None:
    history.not_alive.append("log-1 is failed")


def _memory(history: History) -> None:
    history.samples[-1] = history.samples[-1]._replace(rss_bytes=800 << 20)


def _descriptors(history: History) -> None:
    history.samples[-1] = history.samples[-1]._replace(descriptors=900)


def _sockets(history: History) -> None:
    history.samples[-1] = history.samples[-1]._replace(sockets=900)


BROKEN: list[tuple[str, Callable[[History], None]]] = [
    ("acknowledged_is_kept", _moved),
    ("acknowledged_is_kept", _lost),
    ("acknowledged_is_kept", _lost_without_offset),
    ("offsets_are_stable", _seen_otherwise),
    ("offsets_are_stable", _two_readers_disagree),
    ("nothing_else_appears", _never_sent),
    ("nothing_else_appears", _sent_elsewhere),
    ("nothing_else_appears", _garbage),
    ("every_group_reads_everything", _not_read),
    ("every_group_reads_everything", _read_by_another_group),
    ("idempotent_order", _twice),
    ("idempotent_order", _out_of_order),
    ("no_gaps", _gap),
    ("commits_are_kept", _commit_lost),
    ("commits_are_kept", _commit_gone),
    ("commits_are_kept", _back_at_the_start),
    ("commits_are_kept", _found_and_lost),
    ("commits_are_kept", _late_effect_of_an_old_generation),
    ("commits_are_kept", _late_effect_after_ages),
    ("commits_are_kept", _never_committed),
    ("everything_is_committed", _not_drained),
    ("one_owner", _two_owners),
    ("one_owner_in_descriptions", _two_owners_described),
    ("nothing_hangs", _hangs),
    ("nothing_hangs", _hangs_in_a_call),
    ("nobody_gives_up", _gives_up),
    ("nobody_gives_up", _crashes),
    ("nobody_gives_up", _abandons),
    ("nobody_gives_up", _abandons_before_the_outage),
    ("nobody_gives_up", _abandons_another_call),
    ("all_alive", _is_dead),
    ("nothing_grows", _memory),
    ("nothing_grows", _descriptors),
    ("nothing_grows", _sockets),
    *BROKEN_TRANSACTIONS,
]


def test_a_sound_history_violates_nothing() -> None:
    assert check(sound()) == []
    assert check(with_transactions(sound())) == []


@pytest.mark.parametrize(("rule", "break_it"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_each_rule_notices_what_breaks_it(rule: str, break_it: Callable[[History], None]) -> None:
    history = sound()
    break_it(history)
    assert rule in {violation.rule for violation in check(history)}


def test_each_rule_is_broken_by_some_history() -> None:
    assert {rule.__name__ for rule in RULES} == {name for name, _ in BROKEN}


def _duplicates_of_a_plain_producer(history: History) -> None:
    history.lives["p.1"].idempotent = False
    history.final[T0].append((3, f"{P}:1"))


def _unacknowledged_and_unread(history: History) -> None:
    history.acked.pop()
    history.reads.pop()


def _late_effect_of_the_same_generation(history: History) -> None:
    """Let a commit take effect after a later one: it waited in a paused gateway, and its client gave up on it."""
    history.assigned.pop()
    history.commits[-1] = history.commits[-1]._replace(generation=1)
    history.fetched[-1] = history.fetched[-1]._replace(offset=2)


def _commit_while_fetching(history: History) -> None:
    """Fetch during a commit, which may find either value."""
    history.fetched += [Fetched("g", T0, 1, 6.15, 6.3), Fetched("g", T0, 3, 6.15, 6.3)]


def _library_commits_by_itself(history: History) -> None:
    history.commits = [commit._replace(generation=None, end_s=inf, acked=False) for commit in history.commits]


def _library_commits_where_it_starts(history: History) -> None:
    history.fetched[0] = history.fetched[0]._replace(offset=0)


def _the_same_owner_again(history: History) -> None:
    history.assigned.append(history.assigned[-1]._replace(at_s=9.0))


def _left_the_group(history: History) -> None:
    """librdkafka's generation -1: it makes no claim."""
    history.assigned += [Assigned("g", -1, "member-a", (T0,), "a.1", 9.0)]


def _paused(history: History) -> None:
    life = history.lives["a.1"]
    life.written_s, life.end_s, life.paused = [1, 2], 2 + BOUND_S + 5, [(3.0, 10.0)]


def _cluster_was_down(history: History) -> None:
    for life in history.lives.values():
        life.written_s, life.end_s = [1, 2], 2 + BOUND_S + 5
    history.down.append((4.0, 20.0))


def _librdkafka_lost_its_coordinator(history: History) -> None:
    _abandons(history)
    history.down.append((6.0, 9.0))


def _librdkafka_had_lost_its_coordinator(history: History) -> None:
    _abandons(history)
    history.down.append((1.0, 3.0))


def _slow_call_within_its_timeout(history: History) -> None:
    life = history.lives["a.1"]
    life.calls.append(Call("commit", 2, 30.0 + BOUND_S, 30.0))
    life.written_s, life.end_s = [1, 2, 30.0 + BOUND_S], 30.0 + BOUND_S


@pytest.mark.parametrize(
    "vary",
    [
        _duplicates_of_a_plain_producer,
        _unacknowledged_and_unread,
        _late_effect_of_the_same_generation,
        _commit_while_fetching,
        _library_commits_by_itself,
        _library_commits_where_it_starts,
        _the_same_owner_again,
        _left_the_group,
        _paused,
        _cluster_was_down,
        _librdkafka_lost_its_coordinator,
        _librdkafka_had_lost_its_coordinator,
        _slow_call_within_its_timeout,
        *ALLOWED_TRANSACTIONS,
    ],
)
def test_what_kafka_allows_is_no_violation(vary: Callable[[History], None]) -> None:
    history = sound()
    vary(history)
    assert check(history) == []


def test_many_violations_of_one_rule_are_counted() -> None:
    history = sound()
    history.not_alive = [f"log-{number} is failed" for number in range(MOST + 5)]
    assert check(history)[-1].text == "and 5 more"
    assert len(check(history)) == MOST + 1


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run.jsonl")
    run.write("load", topics={"t": 1}, groups={"g": ["t"]})
    worker = Journal(tmp_path / "a.1.jsonl")
    worker.write("start", role="consumer", library="confluent", idempotent=True, group="g", mode="manual")
    worker.write("read", topic="t", partition=0, records=[(0, "p.1/t-0:0")])
    with worker.call("commit", 5.0, generation=3, offsets=[("t", 0, 1)]):
        pass
    with pytest.raises(ValueError, match="refused"), worker.call("commit", 5.0, generation=3, offsets=[("t", 0, 2)]):
        raise ValueError("refused")
    worker.write("begin", call=SEND_OFFSETS, id=3, timeout=30.0)
    worker.write("abandoned", id=3)
    run.write("worker-paused", worker="a.1", until=99.0)
    run.write("worker-ended", worker="a.1", code=None)
    history = read_history(tmp_path)
    assert history.groups == {"g": ("t",)}
    assert [(read.place, read.offset, read.name) for read in history.reads] == [(T0, 0, "p.1/t-0:0")]
    assert [(commit.offset, commit.generation, commit.acked) for commit in history.commits] == [
        (1, 3, True),
        (2, 3, False),
    ]
    assert history.commits[1].end_s == inf
    life = history.lives["a.1"]
    assert (life.mode, len(life.paused), life.end_s < inf) == ("manual", 1, True)
    assert life.refusals == ["commit: ValueError: refused"]
    assert life.abandoned is not None
    assert (life.abandoned.name, life.abandoned.end_s < inf) == (SEND_OFFSETS, True)


def test_a_worker_ended_after_it_was_seen_alive_however_late_that_is_found(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run.jsonl")
    began_s = now_s()
    seen = {"stopped.1": {"alive": began_s - 5}, "hung.1": {"alive": began_s + 50}, "killed.1": {}}
    for name, alive in seen.items():
        worker = Journal(tmp_path / f"{name}.jsonl")
        worker.write("start", role="consumer", library="confluent", idempotent=True, group="g", mode="manual")
        worker.write("stop")
        run.write("worker-ended", worker=name, code=0, **alive)
    lives = read_history(tmp_path).lives
    assert lives["stopped.1"].end_s == lives["stopped.1"].written_s[-1]
    assert lives["hung.1"].end_s == began_s + 50
    assert lives["killed.1"].end_s == json.loads((tmp_path / "run.jsonl").read_text().splitlines()[-1])["t"]


def test_transactions_are_read_as_they_were_written(tmp_path: Path) -> None:
    Journal(tmp_path / "run.jsonl").write("load", topics={"t": 1, "c": 1}, groups={"g": ["t"]}, transactional=["c"])
    worker = Journal(tmp_path / "x.1.jsonl")
    worker.write("start", role="transformer", library="confluent", idempotent=True, group="g", mode="manual")
    for number, committed in enumerate((True, False, None)):
        records = [(f"x.1/c-0:{number}", "c", 0, "t", 0, 5 + number)]
        worker.write("transaction", id=number, records=records, offsets=[("t", 0, 6 + number)])
        if committed is not None:
            worker.write("transaction-ended", id=number, committed=committed)
    Journal(tmp_path / "observer.jsonl").write("ends", ends=[("c", 0, 3, 4)])
    history = read_history(tmp_path)
    assert [(t.group, t.committed, t.end_s < inf) for t in history.transactions] == [
        ("g", True, True),
        ("g", False, True),
        ("g", None, False),
    ]
    assert history.transactions[1].records == (Transformed("x.1/c-0:1", ("c", 0), (T0, 6)),)
    assert history.transactions[1].offsets == {T0: 7}
    assert (history.transactional, history.ends) == ({"c"}, {("c", 0): (3, 4)})


def test_a_line_that_sigkill_cut_off_is_left_out(tmp_path: Path) -> None:
    whole = json.dumps({"t": 1.0, "e": "tick"})
    (tmp_path / "a.1.jsonl").write_text(f"{whole}\n{whole[:9]}")
    assert read_history(tmp_path).lives["a.1"].written_s == [1.0]


def test_values_name_their_producer_and_show_a_wrong_byte() -> None:
    for number in (0, 1, 5, 1000):
        value = value_of(P, number)
        assert name_of(value) == f"{P}:{number}"
        for position in range(len(value)):
            spoilt = bytearray(value)
            spoilt[position] ^= 1
            assert name_of(bytes(spoilt)) != f"{P}:{number}"
    assert name_of(None) == ""

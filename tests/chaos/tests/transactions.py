"""Histories with transactions: one that keeps every rule, and what each planted bug would make of it."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from tests.chaos.history import Acked, Commit, Fetched, History, Life, Read, Sent, Transaction, Transformed

T0, C0, C1 = ("t", 0), ("c", 0), ("c", 1)
X0, X1 = "x.1/c-0", "x.1/c-1"


def with_transactions(history: History) -> History:
    """Transform the history's three records of T0 by x.1: a transaction of two, one that is aborted, one of one.

    C0 has a marker at offset 1 and 3, C1 at 1, 3 and 5.
    """
    history.topics |= {"c": 2}
    history.groups |= {"x": ("t",), "r": ("c",)}
    history.transactional = frozenset({"c"})
    history.lives |= {
        "x.1": Life("x.1", "transformer", "confluent", "x", idempotent=True, start_s=0, end_s=20, written_s=[1, 2, 19]),
        "r.1": Life("r.1", "consumer", "confluent", "r", start_s=0, end_s=20, written_s=[1, 2, 19]),
    }
    history.sent += [Sent(X0, C0, 0, 1, 7.0), Sent(X1, C1, 0, 2, 7.0)]
    first = (Transformed(f"{X0}:0", C0, (T0, 0)), Transformed(f"{X1}:0", C1, (T0, 1)))
    aborted = (Transformed(f"{X0}:1", C0, (T0, 2)), Transformed(f"{X1}:1", C1, (T0, 2)))
    last = (Transformed(f"{X1}:2", C1, (T0, 2)),)
    history.transactions = [
        Transaction("x.1", "x", 1, first, {T0: 2}, 7.0, 7.5, True),
        Transaction("x.1", "x", 2, aborted, {T0: 3}, 8.0, 8.5, False),
        Transaction("x.1", "x", 3, last, {T0: 3}, 9.0, 9.5, True),
    ]
    history.final |= {C0: [(0, f"{X0}:0")], C1: [(0, f"{X1}:0"), (4, f"{X1}:2")]}
    history.acked += [Acked(f"{X0}:0", C0, 0, 7.5), Acked(f"{X1}:0", C1, 0, 7.5), Acked(f"{X1}:2", C1, 4, 9.5)]
    history.reads += [
        Read("x.1", "x", T0, offset, name, 6.9) for offset, name in enumerate(f"p.1/t-0:{n}" for n in range(3))
    ]
    history.reads += [
        Read("r.1", "r", C0, 0, f"{X0}:0", 10.0),
        Read("r.1", "r", C1, 0, f"{X1}:0", 10.0),
        Read("r.1", "r", C1, 4, f"{X1}:2", 10.0),
    ]
    history.commits += [Commit("r.1", "r", C0, 1, 1, 10.1, 10.2, True), Commit("r.1", "r", C1, 5, 1, 10.1, 10.2, True)]
    history.fetched += [Fetched("x", T0, 2, 7.6, 7.7), Fetched("x", T0, 3, 9.6, 9.7), Fetched("r", C1, 5, 11.0, 11.1)]
    history.ends = {T0: (3, 3), C0: (4, 4), C1: (6, 6)}
    history.drained |= {"x": True, "r": True}
    return history


def _marker_lost(history: History) -> None:
    """Lose a marker that was acknowledged before it was durable.

    A partition of a committed transaction shows nothing.
    """
    with_transactions(history).final[C0] = []
    history.acked = [acked for acked in history.acked if acked.place != C0]


def _marker_lost_in_doubt(history: History) -> None:
    """Let the producer die before it is informed: the transaction must be whole nevertheless."""
    with_transactions(history).final[C0] = []
    history.transactions[0].committed, history.transactions[0].end_s = None, inf


def _copy_twice(history: History) -> None:
    with_transactions(history).final[C0].append((2, f"{X0}:0"))


def _committed_but_gone(history: History) -> None:
    history = with_transactions(history)
    history.final[C1] = history.final[C1][:1]


def _aborted_but_visible(history: History) -> None:
    """Readers were not informed of an aborted transaction."""
    with_transactions(history).final[C1].insert(1, (2, f"{X1}:1"))
    history.final[C0].append((2, f"{X0}:1"))


def _read_before_its_end(history: History) -> None:
    """Let a reader get records that are aborted later: the last stable offset was the high watermark."""
    with_transactions(history).reads.append(Read("r.1", "r", C1, 2, f"{X1}:1", 8.2))


def _transformed_twice(history: History) -> None:
    """Commit the transaction of a process that was replaced, too: the epoch was not bumped."""
    history = with_transactions(history)
    history.sent.append(Sent("x.2/c-0", C0, 0, 0, 9.0))
    history.lives["x.2"] = Life("x.2", "transformer", "confluent", "x", start_s=0, end_s=20, written_s=[1, 2, 19])
    again = (Transformed("x.2/c-0:0", C0, (T0, 2)),)
    history.transactions.append(Transaction("x.2", "x", 1, again, {T0: 3}, 9.0, 9.6, True))
    history.final[C0].append((4, "x.2/c-0:0"))


def _never_transformed(history: History) -> None:
    """Its offset was committed, and the transaction was not."""
    history = with_transactions(history)
    del history.transactions[2]
    history.final[C1].pop()
    history.acked.pop()
    history.reads.pop(-1)


def _offsets_of_an_aborted_transaction(history: History) -> None:
    """Pending offsets were kept after the abort, and the next marker committed them."""
    with_transactions(history).fetched.append(Fetched("x", T0, 3, 8.6, 8.7))


def _offsets_without_their_records(history: History) -> None:
    """In doubt, none of the records is visible, but the offsets are committed."""
    history = with_transactions(history)
    history.transactions[2].committed, history.transactions[2].end_s = None, inf
    history.final[C1].pop()
    history.acked.pop()
    history.reads.pop(-1)
    history.drained["x"] = False


def _offsets_lost(history: History) -> None:
    with_transactions(history).fetched.append(Fetched("x", T0, 2, 10.0, 10.1))


def _stays_open(history: History) -> None:
    with_transactions(history).ends[C1] = (4, 6)


BROKEN_TRANSACTIONS: list[tuple[str, Callable[[History], None]]] = [
    ("transactions_are_whole", _marker_lost),
    ("transactions_are_whole", _marker_lost_in_doubt),
    ("transactions_are_whole", _copy_twice),
    ("ends_are_kept", _marker_lost),
    ("ends_are_kept", _committed_but_gone),
    ("ends_are_kept", _aborted_but_visible),
    ("only_committed_records_are_read", _read_before_its_end),
    ("each_record_is_transformed_once", _transformed_twice),
    ("each_record_is_transformed_once", _never_transformed),
    ("commits_are_kept", _offsets_of_an_aborted_transaction),
    ("commits_are_kept", _offsets_without_their_records),
    ("commits_are_kept", _offsets_lost),
    ("no_transaction_stays_open", _stays_open),
]


def _committed_in_doubt(history: History) -> None:
    last = with_transactions(history).transactions[2]
    last.committed, last.end_s = None, inf


def _aborted_in_doubt(history: History) -> None:
    aborted = with_transactions(history).transactions[1]
    aborted.committed, aborted.end_s = None, inf


def _old_offset_while_it_ends(history: History) -> None:
    with_transactions(history).fetched.append(Fetched("x", T0, 2, 9.3, 9.4))


ALLOWED_TRANSACTIONS: list[Callable[[History], None]] = [
    _committed_in_doubt,
    _aborted_in_doubt,
    _old_offset_while_it_ends,
]

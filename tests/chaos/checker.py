"""All rules over one history. Pure: the same history gives the same result, on any machine and at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.chaos.history import History
from tests.chaos.rules import calls, commits, groups, processes, records, transactions
from tests.chaos.rules.violation import MOST, Violation

RULES: tuple[Callable[[History], Iterator[str]], ...] = (
    records.acknowledged_is_kept,
    records.offsets_are_stable,
    records.nothing_else_appears,
    records.every_group_reads_everything,
    records.idempotent_order,
    records.no_gaps,
    commits.commits_are_kept,
    commits.everything_is_committed,
    transactions.transactions_are_whole,
    transactions.ends_are_kept,
    transactions.only_committed_records_are_read,
    transactions.each_record_is_transformed_once,
    transactions.no_transaction_stays_open,
    groups.one_owner,
    groups.one_owner_in_descriptions,
    calls.nothing_hangs,
    calls.nobody_gives_up,
    processes.all_alive,
    processes.nothing_grows,
)


def check(history: History) -> list[Violation]:
    """Violations by rule; of each rule the first ``MOST``, and then the number of others."""
    found: list[Violation] = []
    for rule in RULES:
        texts = list(rule(history))
        found += [Violation(rule.__name__, text) for text in texts[:MOST]]
        if len(texts) > MOST:
            found.append(Violation(rule.__name__, f"and {len(texts) - MOST} more"))
    return found

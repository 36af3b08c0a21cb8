"""Transactions: all or nothing, nothing that was aborted, and each record is transformed exactly once.

A record is visible if readers with isolation level read_committed find it. How a transaction ended is known if the
producer was informed; otherwise either end is legal, but of the whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.chaos.history import History, Place, Transaction


def transactions_are_whole(history: History) -> Iterator[str]:
    """Require all records of a transaction to be visible in the end, each once, or none."""
    visible = _visible(history)
    for each in history.transactions:
        counts = Counter({record.name: visible[record.name] for record in each.records})
        there = [name for name, count in counts.items() if count]
        missing = [name for name, count in counts.items() if not count]
        if there and missing:
            yield f"{_named(each)}: {there[0]} is visible, {missing[0]} is not"
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            yield f"{_named(each)}: {twice[0]} is visible {counts[twice[0]]} times"


def ends_are_kept(history: History) -> Iterator[str]:
    """Require readers to find the end that the producer was informed of: committed records, and no aborted ones."""
    visible = _visible(history)
    for each in history.transactions:
        for record in each.records:
            if each.committed is not None and bool(visible[record.name]) != each.committed:
                said, found = ("committed", "not visible") if each.committed else ("aborted", "visible")
                yield f"{_named(each)} was {said}, but {record.name} is {found}"
                break


def only_committed_records_are_read(history: History) -> Iterator[str]:
    """No reader at any time finds a record of a transaction that is not committed in the end."""
    final: set[tuple[Place, int, str]] = {
        (place, offset, name) for place, records in history.final.items() for offset, name in records
    }
    for read in history.reads:
        if read.place[0] in history.transactional and (read.place, read.offset, read.name) not in final:
            where = f"{read.place[0]}-{read.place[1]}@{read.offset}"
            yield f"{read.worker} read {read.name} at {where} ({read.at_s:.2f} s), which is not committed"


def each_record_is_transformed_once(history: History) -> Iterator[str]:
    """Each record of a group's topics has one visible result: none is lost, none is there twice."""
    visible = _visible(history)
    results: dict[str, dict[tuple[Place, int], list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in history.transactions:
        for record in each.records:
            if visible[record.name]:
                results[each.group][record.source].append(record.name)
    for group, found in sorted(results.items()):
        for source, names in sorted(found.items()):
            if len(names) > 1:
                yield f"{group} has transformed {_at(source)} to {names[0]} and to {names[1]}"
        for place, records in sorted(history.final.items()) if history.drained.get(group) else ():
            for offset, name in records if place[0] in history.groups[group] else ():
                if (place, offset) not in found:
                    yield f"{group} has committed beyond {_at((place, offset))} ({name}), and not transformed it"


def no_transaction_stays_open(history: History) -> Iterator[str]:
    """In the end readers of committed records reach the ends of all partitions."""
    for place, (stable, end) in sorted(history.ends.items()):
        if stable != end:
            yield f"{place[0]}-{place[1]} ends at {end}, readers of committed records at {stable}"


def _visible(history: History) -> Counter[str]:
    """How often each record of a topic with transactions is visible in the end."""
    return Counter(
        name for place, records in history.final.items() if place[0] in history.transactional for _, name in records
    )


def _named(transaction: Transaction) -> str:
    return f"transaction {transaction.number} of {transaction.worker} ({transaction.begin_s:.2f} s)"


def _at(source: tuple[Place, int]) -> str:
    (topic, partition), offset = source
    return f"{topic}-{partition}@{offset}"

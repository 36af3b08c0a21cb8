"""The checker finds planted bugs of transactions: transformers and a reader, a server from a tree with the bug.

The same schedule on the unmodified tree violates nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from tests.chaos.draining import DRAIN_S, drain
from tests.chaos.history import read_history
from tests.chaos.plan import Worker
from tests.chaos.tests.bugs import (
    ABORT_COMMITS_OFFSETS,
    MARKER_BEFORE_DURABLE,
    READS_BEYOND_THE_LAST_STABLE_OFFSET,
    Bug,
)
from tests.chaos.tests.test_planted_bugs import TOPIC, WAIT_S, Stage, producer, stage
from tests.zookeeper_fixture import eventually

pytestmark = pytest.mark.ring(name="planted")


COPIES, COPIERS, READERS = "copies", "copiers", "readers"
TRANSFORMERS = ("copier-0", "copier-1")
ENOUGH = 12
"""So many transactions, of which one in seven is aborted."""


class Transforming(Stage):
    topics: ClassVar = {TOPIC: 2, COPIES: 2}
    groups: ClassVar = {COPIERS: (TOPIC,), READERS: (COPIES,)}


def transformer(name: str) -> Worker:
    return Worker(name=name, role="transformer", library="confluent", topics=(TOPIC,), outputs=(COPIES,), group=COPIERS)


def ended(running: Stage) -> int:
    """Return the number of transactions whose end is known."""
    journals = [path.read_text() for path in running.journals.glob("copier-*.jsonl")]
    return sum(text.count('"e":"transaction-ended"') for text in journals)


def has_read_aborted(running: Stage) -> bool:
    """Whether the reader has read a record of a transaction that was aborted."""
    history = read_history(running.journals)
    aborted = {record.name for each in history.transactions if each.committed is False for record in each.records}
    return any(each.name in aborted for each in history.reads)


@pytest.mark.parametrize(
    ("bug", "rules"),
    [
        (None, set()),
        (READS_BEYOND_THE_LAST_STABLE_OFFSET, {"only_committed_records_are_read"}),
        (ABORT_COMMITS_OFFSETS, {"commits_are_kept", "each_record_is_transformed_once"}),
        (MARKER_BEFORE_DURABLE, {"ends_are_kept", "no_transaction_stays_open"}),
    ],
    ids=["sound", "stable-offset", "abort-commits", "marker"],
)
@pytest.mark.timeout(400)
def test_transactions(bug: Bug | None, rules: set[str], tmp_path: Path, zk_hosts: str) -> None:
    """A transformer is killed in its work, then all actors are, while the others continue."""
    with stage(tmp_path, bug, zk_hosts, Transforming) as running:
        server = running.serve()
        observer = running.observer(server)
        running.journal.write("load", topics=running.topics, groups=running.groups, transactional=[COPIES])
        observer.create_topics({})
        reader = Worker(name="reader", role="consumer", library="confluent", topics=(COPIES,), group=READERS)
        fleet = running.fleet(server, producer("producer"), *map(transformer, TRANSFORMERS), reader)
        observer.start()
        eventually(lambda: ended(running) > ENOUGH, "transactions end", within_s=WAIT_S)
        fleet.kill(TRANSFORMERS[0])
        fleet.start(TRANSFORMERS[0])
        before = ended(running)
        eventually(lambda: ended(running) > before + ENOUGH, "and more of them", within_s=WAIT_S)
        if bug is READS_BEYOND_THE_LAST_STABLE_OFFSET:
            eventually(lambda: has_read_aborted(running), "one reads what is aborted", within_s=WAIT_S)
        server.kill()
        running.serve(int(server.bootstrap.rpartition(":")[2]))
        if bug is None:
            before = ended(running)
            eventually(lambda: ended(running) > before + ENOUGH, "they continue", within_s=WAIT_S)
            drain(fleet, observer, running.groups, running.journal, pytest.fail)
        else:
            for name in (*TRANSFORMERS, "producer"):
                fleet.kill(name)
        observer.stop()
        assert observer.read_logs(DRAIN_S)
        observer.compare_ends(DRAIN_S if bug is None else 1.0)
        observer.close()
        violated = running.violated()
        assert violated == set() if bug is None else violated & rules

"""``TransactionalMessageCopier`` of Kafka's system tests: records and offsets in one transaction, aborts, a kill."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.artifacts import Kafka
from tests.conformance.programs.program import Outcome, Program
from tests.conformance.programs.records import read, write
from tests.conformance.topics import committed, create_topic
from tests.muster_process import eventually

pytestmark = pytest.mark.timeout(600)

PARTITIONS = 2
EACH = 600
IN_TRANSACTION = 5
BEFORE_KILL = 100
TIMEOUT_MS = 20_000
"""When that of the killed one is aborted. Before, its successor cannot read the offsets that are pending in it."""
DONE_S = 180
HEAP_MB = 128


class Copier(Program):
    """Copies a partition of a topic to that of another one, and aborts some of its transactions."""

    def __init__(self, release: Kafka, bootstrap: str, group: str, partition: int, folder: Path) -> None:
        arguments = {
            "broker-list": bootstrap,
            "input-topic": f"{group}-input",
            "input-partition": str(partition),
            "output-topic": f"{group}-output",
            "consumer-group": group,
            "transactional-id": f"{group}-{partition}",
            "transaction-size": str(IN_TRANSACTION),
            "transaction-timeout": str(TIMEOUT_MS),
        }
        options = [word for name, value in arguments.items() for word in (f"--{name}", value)]
        flags = ["--enable-random-aborts", "--use-group-metadata"]
        main_class = "org.apache.kafka.tools.TransactionalMessageCopier"
        command = release.command(main_class, *options, *flags, heap_mb=HEAP_MB)
        super().__init__(f"copier-{partition}", command, folder)

    def copied(self) -> int:
        """Return the number of records in transactions that it has committed since its last start."""
        events = [json.loads(line) for line in self.log.splitlines() if line.startswith("{") and line.endswith("}")]
        return int(events[-1]["totalProcessed"]) if events else 0


def test_aborted_and_killed(
    bootstrap: str, release: Kafka, fresh: Callable[[str], str], tmp_path: Path, outcome: Outcome
) -> None:
    group = fresh("copier")
    source, output = f"{group}-input", f"{group}-output"
    for topic in (source, output):
        create_topic(bootstrap, topic, PARTITIONS)
    write(bootstrap, source, map(str, range(PARTITIONS * EACH)), partitions=PARTITIONS)
    killed, other = (Copier(release, bootstrap, group, partition, tmp_path) for partition in range(PARTITIONS))
    with killed, other:
        eventually(killed.copied, lambda count: count >= BEFORE_KILL, f"{BEFORE_KILL} records are copied", DONE_S)
        killed.kill()
        killed.start()
        for copier in (killed, other):
            assert eventually(lambda: copier.ended, lambda code: code is not None, "it ends", DONE_S) == 0  # noqa: B023
    copied, everything = read(bootstrap, output, committed=True), read(bootstrap, output)
    for partition in range(PARTITIONS):
        values = [int(record.value or b"") for record in copied if record.partition == partition]
        assert values == list(range(partition, PARTITIONS * EACH, PARTITIONS)), "each once and in order"
    assert committed(bootstrap, group) == {(source, partition): EACH for partition in range(PARTITIONS)}
    assert len(everything) > len(copied), "some transactions were aborted"
    outcome(
        f"`TransactionalMessageCopier` of Kafka {release.version}, two with random aborts: one killed, started again",
        f"{len(copied)} records, each once and in order",
    )

"""Kafka's own producer with transactions, under both protocols of KIP-890, and the tool that looks after them."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Producer

from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools
from tests.conformance.topics import create_topic, ends
from tests.muster_process import Muster

_RECORDS = 2_000


def test_a_transactional_producer(muster: Muster, release: Kafka, fresh: Callable[[str], str]) -> None:
    """By the level of transaction.version, it follows KIP-890: each transaction has another epoch."""
    topic, name, tools = fresh("topic"), fresh("txn"), Tools(release, muster.bootstrap)
    create_topic(muster.bootstrap, topic, 3)
    arguments = ["--topic", topic, "--num-records", str(_RECORDS), "--record-size", "10", "--throughput", "1000"]
    tools.run("ProducerPerformance", *arguments, "--transactional-id", name, "--transaction-duration-ms", "100")
    assert sum(ends(muster.bootstrap, topic, 3).values()) > _RECORDS, "markers have offsets, too"
    consumer = ["--topic", topic, "--from-beginning", "--max-messages", str(_RECORDS), "--isolation-level"]
    lines = tools.run("consumer.ConsoleConsumer", *consumer, "read_committed", "--timeout-ms", "60000").splitlines()
    assert len(lines) == _RECORDS
    assert listed(tools)[name] == "CompleteCommit"
    epoch = describe(tools, name)["ProducerEpoch"]
    assert int(epoch) > 5, "one for each of the transactions"


def test_a_transaction_that_someone_left_open(muster: Muster, release: Kafka, fresh: Callable[[str], str]) -> None:
    """The tool shows it, and what it holds up."""
    topic, name, tools = fresh("topic"), fresh("txn"), Tools(release, muster.bootstrap)
    create_topic(muster.bootstrap, topic, 1)
    patient = {"transaction.timeout.ms": 600_000}  # the tool is run four times in the transaction
    producer = Producer({"bootstrap.servers": muster.bootstrap, "transactional.id": name, **patient})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush(30)
    assert listed(tools)[name] == "Ongoing"
    found = describe(tools, name)
    assert (found["TransactionState"], found["TopicPartitions"]) == ("Ongoing", f"{topic}-0")
    (holder,) = rows(tools.run(_TOOL, "describe-producers", "--topic", topic, "--partition", "0"))
    assert holder["ProducerId"] == found["ProducerId"]
    assert holder["CurrentTransactionStartOffset"] == "0"
    producer.abort_transaction(30)
    assert describe(tools, name)["TransactionState"] == "CompleteAbort"


_TOOL = "TransactionsCommand"


def listed(tools: Tools) -> dict[str, str]:
    """Return the state of each transactional id."""
    return {row["TransactionalId"]: row["TransactionState"] for row in rows(tools.run(_TOOL, "list"))}


def describe(tools: Tools, name: str) -> dict[str, str]:
    (row,) = rows(tools.run(_TOOL, "describe", "--transactional-id", name))
    return row


def rows(table: str) -> list[dict[str, str]]:
    """Return a table of the tool by its columns, which are separated by tabs."""
    head, *lines = [[cell.strip() for cell in line.split("\t")] for line in table.splitlines() if line.strip()]
    return [dict(zip(head, line, strict=False)) for line in lines]

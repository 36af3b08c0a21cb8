"""The jobs over the tables of a real run: their results agree with what clients and gateways saw.

Two members of a group and one of another read a topic while the first group's coordinator is killed; then a client
reads without a group, the first group leaves, and more is produced. ``make demo`` compares ``consumption`` in the same
way, with more load.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kafka
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from muster.placement.hashing import partition_for
from muster.spark.jobs import JOBS
from muster.spark.jobs.job import Options
from muster.spark.render.showing import to_json
from muster.spark.result import run_job
from tests.cluster.consumer_groups.members import ConfluentMember, KafkaPythonMember, Member, Producer
from tests.muster_process import Muster, eventually

TOPIC, PARTITIONS, OFFSETS_PARTITIONS = "flights", 3, 4
BILLING, AUDIT = "billing", "audit"
COORDINATOR = f"offsets-{partition_for(BILLING, OFFSETS_PARTITIONS)}"
"""Coordinator of the first group; it is killed."""
FIRST, SECOND, LATE = 3_000, 600, 120
"""Records: before the kill, after it, and after the group has left."""
PROPERTIES = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "group.initial.rebalance.delay.ms": "300",
    "attribution.pending.ms": "5000",
    "metrics.commits.flush.ms": "1000",
    "metrics.end.offsets.flush.ms": "1000",
}
PATIENCE_S = 400
"""For the run and all jobs, for which the first test waits."""
Sections = dict[str, list[dict[str, Any]]]

pytestmark = [pytest.mark.ring(name="spark-apart"), pytest.mark.timeout(PATIENCE_S)]


@dataclass
class Seen:
    """According to the participants."""

    storage: Path
    assignments: int = 0
    """The partitions that the first member of the first group got."""
    lag: dict[tuple[str, int], int] = field(default_factory=dict)
    """By group and partition: the log's end minus the last acknowledged commit."""
    bytes: Counter[str] = field(default_factory=Counter)
    """Sent, by group, as counted by the gateways."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Sent without a group, by reason, likewise."""


def counted(muster: Muster) -> dict[str, Counter[str]]:
    """Counters of fetched bytes of all gateways, by metric and by group or reason."""
    found: dict[str, Counter[str]] = {}
    for url in muster.metrics_urls:
        with urllib.request.urlopen(url, timeout=30) as result:
            text = result.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if "fetch_bytes" in sample.name and sample.value:
                    label = sample.labels.get("group") or sample.labels.get("reason", "")
                    found.setdefault(sample.name, Counter())[label] += int(sample.value)
    return found


def until_committed(members: list[Member], producer: Producer) -> None:
    """Wait until together they have committed everything that was produced."""
    ends = ends_of(producer)
    eventually(
        lambda: {at: max(member.committed.get(at, 0) for member in members) for at in ends},
        lambda committed: committed == ends,
        f"{ends} committed",
    )


def ends_of(producer: Producer) -> dict[int, int]:
    """Partition -> end of its log."""
    return Counter(partition for partition, _ in producer.acknowledged.values())


def read_without_a_group(muster: Muster, records: int) -> None:
    servers = muster.bootstrap.split(",")
    with kafka.KafkaConsumer(bootstrap_servers=servers, group_id=None, auto_offset_reset="earliest") as consumer:
        consumer.assign([kafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        read = 0
        while read < records:
            read += sum(len(found) for found in consumer.poll(1000).values())


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    storage = tmp_path_factory.mktemp("run") / "storage"
    seen = Seen(storage)
    with Muster(storage, properties=PROPERTIES) as muster:
        muster.topic(TOPIC, partitions=PARTITIONS)
        producer = Producer(muster.bootstrap, TOPIC)
        one, two = (ConfluentMember(muster.bootstrap, TOPIC, BILLING, **{"client.id": f"billing-{n}"}) for n in (1, 2))
        other = KafkaPythonMember(muster.bootstrap, TOPIC, AUDIT)

        def produce(records: int, *readers: Member) -> None:
            producer.send(records)
            producer.flush()
            for group in {reader.group for reader in readers}:
                until_committed([reader for reader in readers if reader.group == group], producer)

        one.start()
        other.start()
        produce(FIRST, one, other)
        two.start()
        eventually(lambda: (len(one.assigned), len(two.assigned)), all, "both have partitions")
        os.kill(muster.actors()[COORDINATOR]["pid"], signal.SIGKILL)
        produce(SECOND, one, two, other)
        muster.until_all_serve()  # who has left is a member again if the group's actor moves before the next generation
        read_without_a_group(muster, FIRST + SECOND)
        two.leave()
        eventually(lambda: len(one.assigned), lambda count: count == PARTITIONS, "the other has all partitions")
        one.leave()
        seen.assignments = sum(kind == "assigned" for kind, _ in one.moves)
        left_at = ends_of(producer)
        produce(LATE, other)
        other.leave()
        for partition, end in ends_of(producer).items():
            seen.lag[BILLING, partition] = end - left_at[partition]
            seen.lag[AUDIT, partition] = 0
        books = eventually(
            lambda: counted(muster), lambda books: "muster_pending_fetch_bytes" not in books, "nothing waits"
        )
        seen.bytes = books["muster_group_fetch_bytes_total"]
        seen.reasons = books["muster_unattributed_fetch_bytes_total"]
    return seen


@pytest.fixture(scope="module")
def said(seen: Seen, spark: SparkSession) -> dict[str, Sections]:
    """Rows of each section of each job."""
    options = Options(commits_flush_ms=1000, end_offsets_flush_ms=1000)
    results = [run_job(job, spark, seen.storage, options) for job in JOBS.values()]
    jobs = json.loads(to_json(results, options))["jobs"]
    return {job: {name: found["rows"] for name, found in sections.items()} for job, sections in jobs.items()}


def test_consumption_says_what_the_gateways_counted(seen: Seen, said: dict[str, Sections]) -> None:
    sections = said["consumption"]
    assert {row["group"]: row["bytes"] for row in sections["groups"]} == dict(seen.bytes)
    assert {row["reason"]: row["bytes"] for row in sections["unattributed"]} == dict(seen.reasons)
    assert {row["group"]: row["distinct"] for row in sections["groups"]} == {
        BILLING: FIRST + SECOND,
        AUDIT: FIRST + SECOND + LATE,
    }


def test_lag_is_the_end_of_the_log_minus_what_was_committed(seen: Seen, said: dict[str, Sections]) -> None:
    rows = said["lag"]["partitions"]
    assert {(row["group"], row["partition"]): row["lag_messages"] for row in rows} == seen.lag
    assert sum(row["lag_messages"] for row in said["lag"]["groups"]) == LATE


def test_rebalances_are_those_that_members_saw_and_the_kill_caused_none(seen: Seen, said: dict[str, Sections]) -> None:
    sections = said["rebalances"]
    [billing] = [row for row in sections["groups"] if row["group"] == BILLING]
    assert (billing["stable"], billing["most_members"]) == (seen.assignments, 2)
    causes = {row["cause"] for row in sections["causes"]}
    assert causes == {"member joined", "member left"}
    triggering_members = {row["client_id"] for row in sections["culprits"] if row["group"] == BILLING}
    assert triggering_members == {"billing-1", "billing-2"}


def test_attribution_says_why_the_reader_has_no_group_and_that_commits_agree(
    seen: Seen, said: dict[str, Sections]
) -> None:
    """It has the library's client id, like the other group's member on the same host."""
    sections = said["attribution"]
    assert set(seen.reasons) == {"not_member"}
    expected: dict[str | None, int] = {None: sum(seen.bytes.values())} | dict(seen.reasons)
    assert {row["reason"]: row["bytes"] for row in sections["reasons"]} == expected
    assert {(row["group"], row["missing_offsets"]) for row in sections["drift"]} == {(BILLING, 0), (AUDIT, 0)}
    assert sections["holes"] == sections["reattributed_groups"] == []


def test_placement_has_each_group_at_its_coordinator(seen: Seen, said: dict[str, Sections]) -> None:
    carried = {row["actor"]: (row["groups"], row["members"], row["bytes"]) for row in said["placement"]["partitions"]}
    expected = {f"offsets-{number}": (0, 0, 0) for number in range(OFFSETS_PARTITIONS)}
    for group, members in ((BILLING, 2), (AUDIT, 1)):
        before = expected[f"offsets-{_partition(group)}"]
        expected[f"offsets-{_partition(group)}"] = (before[0] + 1, before[1] + members, before[2] + seen.bytes[group])
    assert carried == expected


def test_failover_names_the_coordinator_that_was_killed(said: dict[str, Sections]) -> None:
    sections = said["failover"]
    [outage] = sections["longest"]
    assert (outage["actor"], outage["kind"], outage["ending"]) == (COORDINATOR, "offsets", "serving")
    assert outage["seconds"] > 0
    assert sections["open"] == []


def _partition(group: str) -> int:
    return partition_for(group, OFFSETS_PARTITIONS)

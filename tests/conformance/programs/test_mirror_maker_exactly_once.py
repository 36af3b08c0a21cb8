"""MirrorMaker 2 with ``exactly.once.source.support``: killed while it mirrors, it mirrors no record twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.conformance.artifacts import Kafka, connect
from tests.conformance.kafka import free_ports
from tests.conformance.programs.program import Outcome, Program
from tests.conformance.programs.records import read, write
from tests.conformance.topics import create_topic
from tests.muster_process import eventually

pytestmark = pytest.mark.timeout(900)

PARTITIONS = 2
RECORDS = 20_000
HEAP_MB = 256
START_S = 240


def mirror_maker(release: Kafka, bootstrap: str, topic: str, folder: Path) -> Program:
    """From a cluster to itself, which gives the topics the source's alias, ``S``; only records are mirrored."""
    (port,) = free_ports(1)
    one_copy = [f"{kind}.storage.replication.factor = 1" for kind in ("config", "offset", "status")]
    lines = [
        "clusters = S, T",
        *(f"{alias}.bootstrap.servers = {bootstrap}" for alias in "ST"),
        *(f"{alias}.{line}" for line in one_copy for alias in "ST"),
        "S->T.enabled = true",
        f"S->T.topics = {topic}",
        "S->T.sync.topic.configs.enabled = false",
        "emit.heartbeats.enabled = false",
        "heartbeats.replication.enabled = false",
        "replication.factor = 1",
        "offset-syncs.topic.replication.factor = 1",
        "checkpoints.topic.replication.factor = 1",
        "heartbeats.topic.replication.factor = 1",
        "refresh.topics.interval.seconds = 1",
        "T.exactly.once.source.support = enabled",
        "S->T.consumer.max.poll.records = 100",
        "dedicated.mode.enable.internal.rest = true",
        f"listeners = http://127.0.0.1:{port}",
    ]
    properties = folder / "mm2.properties"
    properties.write_text("\n".join(lines))
    main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
    return Program("mirror-maker", release.command(main_class, str(properties), heap_mb=HEAP_MB), folder)


def test_killed_while_it_mirrors(bootstrap: str, fresh: Callable[[str], str], tmp_path: Path, outcome: Outcome) -> None:
    release, topic = connect(), fresh("exactly-once")
    mirrored = f"S.{topic}"
    create_topic(bootstrap, topic, PARTITIONS)
    write(bootstrap, topic, map(str, range(RECORDS)), partitions=PARTITIONS)

    def values() -> list[list[int]]:
        """Return the values of the mirrored records, by partition."""
        found = read(bootstrap, mirrored, committed=True)
        return [[int(one.value or b"") for one in found if one.partition == number] for number in range(PARTITIONS)]

    with mirror_maker(release, bootstrap, topic, tmp_path) as mirror:
        topics = lambda: AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics  # noqa: E731
        eventually(topics, lambda found: mirrored in found, "the topic is mirrored", START_S)
        eventually(values, lambda found: any(found), "some records are mirrored", START_S)
        mirror.kill()
        mirror.start()
        total = lambda found: sum(map(len, found)) >= RECORDS  # noqa: E731
        found = eventually(values, total, "all records are mirrored", START_S)
    assert found == [list(range(number, RECORDS, PARTITIONS)) for number in range(PARTITIONS)]
    outcome(
        f"MirrorMaker 2 of Kafka {release.version}, exactly once: killed, started again",
        f"{RECORDS} records, each once and in order",
    )

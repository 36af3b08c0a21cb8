"""MirrorMaker 2 as it comes: topics, their records and configs, and what groups committed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from conformance.artifacts import connect
from conformance.kafka import end_with_parent
from conformance.topics import commit, committed, create_topic, ends, fill
from tests.muster_process import Muster, eventually

Fresh = Callable[[str], str]

HEAP_MB = 256
START_S = 240
"""MirrorMaker starts three connectors one after the other, on a machine that may be busy."""
STOP_S = 60


def own_configs(bootstrap: str, topic: str) -> dict[str, str | None]:
    """What is set on the topic."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_configs([resource])[resource].result(30)
    of_topic = ConfigSource.DYNAMIC_TOPIC_CONFIG
    return {name: entry.value for name, entry in found.items() if ConfigSource(entry.source) is of_topic}


def set_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_mirror_maker(muster: Muster, fresh: Fresh, tmp_path: Path) -> None:
    """One cluster is source and target, which gives its topics the name of the source's alias.

    Where a cluster has several brokers, MirrorMaker learns of a topic that it has just created when it looks again.
    Heartbeats are left out: in a circle, MirrorMaker would mirror the mirrored ones, and so on.
    """
    topic, group = fresh("mirrored"), fresh("group")
    mirrored = f"A.{topic}"
    create_topic(muster.bootstrap, topic, 2)
    fill(muster.bootstrap, topic, 1, [time.time_ns() // 1_000_000] * 100)
    commit(muster.bootstrap, group, {(topic, 1): 40})
    properties = tmp_path / "mm2.properties"
    properties.write_text(
        f"""clusters = A, B
A.bootstrap.servers = {muster.bootstrap}
B.bootstrap.servers = {muster.bootstrap}
A->B.enabled = true
A->B.topics = {topic}
A->B.groups = {group}
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
refresh.topics.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
"""
    )
    main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
    command = connect().command(main_class, str(properties), heap_mb=HEAP_MB)
    said = tmp_path / "mm2.log"
    with said.open("wb") as log:
        mirror = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, preexec_fn=end_with_parent)
    try:
        admin = AdminClient({"bootstrap.servers": muster.bootstrap})
        topics = lambda: admin.list_topics(timeout=30).topics  # noqa: E731
        eventually(topics, lambda found: mirrored in found, "the topic is mirrored", START_S)
        wanted = {(mirrored, 0): 0, (mirrored, 1): 100}
        eventually(
            lambda: ends(muster.bootstrap, mirrored, 2), lambda found: found == wanted, "the records are", START_S
        )
        set_config(muster.bootstrap, topic, "retention.ms", "777000000")
        configs = lambda: own_configs(muster.bootstrap, mirrored)  # noqa: E731
        eventually(configs, lambda found: found.get("retention.ms") == "777000000", "the config is")
        assert " ERROR " not in said.read_text()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{said.read_text()[-3000:]}") from error
    finally:
        mirror.terminate()
        mirror.wait(STOP_S)
    assert committed(muster.bootstrap, group) == {(topic, 1): 40}

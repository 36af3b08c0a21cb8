"""MirrorMaker 2 mirrors topics, their records and configs, and the groups' commits."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from pytest_muster.bound import bound
from tests.conformance.artifacts import Kafka, connect
from tests.conformance.topics import Offsets, commit, committed, create_topic, ends, fill, now_ms, own_configs
from tests.muster_process import Muster, eventually

pytestmark = pytest.mark.timeout(900)

Fresh = Callable[[str], str]

HEAP_MB = 256
START_S = 240
"""MirrorMaker starts three connectors one after the other, possibly on a busy machine."""
STOP_S = 60
FAILED = re.compile(r"^.* ERROR (?!Scheduler: ).*$", re.MULTILINE)
"""A line of its log. What is done at intervals says ERROR, too, of a request that takes too long, and repeats it."""


def set_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


@contextmanager
def mirror_maker(release: Kafka, bootstrap: str, topic: str, group: str, folder: Path) -> Iterator[Path]:
    """MirrorMaker from a cluster to itself, which gives the topics the source's alias, ``A``; yields its log.

    It looks for topics every second: it does not wait for those that it creates, and requests the list at once, perhaps
    from another broker. Heartbeats are excluded: in a circle, MirrorMaker would mirror the mirrored ones, and so on.
    """
    properties = folder / "mm2.properties"
    properties.write_text(
        f"""clusters = A, B
A.bootstrap.servers = {bootstrap}
B.bootstrap.servers = {bootstrap}
A->B.enabled = true
A->B.topics = {topic}
A->B.groups = {group}
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
"""
    )
    main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
    command = release.command(main_class, str(properties), heap_mb=HEAP_MB)
    said = folder / "mm2.log"
    with said.open("wb") as log:
        mirror = subprocess.Popen(bound(command), stdout=log, stderr=subprocess.STDOUT)
    try:
        yield said
    except AssertionError as error:
        raise AssertionError(f"{error}\n{said.read_text()[-3000:]}") from error
    finally:
        mirror.terminate()
        try:
            mirror.wait(STOP_S)
        finally:
            mirror.kill()
            mirror.wait()


def test_mirror_maker(muster: Muster, fresh: Fresh, tmp_path: Path) -> None:
    topic, group = fresh("mirrored"), fresh("group")
    mirrored = f"A.{topic}"
    create_topic(muster.bootstrap, topic, 2)
    fill(muster.bootstrap, topic, 1, [now_ms()] * 100)
    written = 100

    def commit_at_the_end() -> Offsets:
        """MirrorMaker translates offsets of records that it has mirrored since it first saw the group."""
        nonlocal written
        fill(muster.bootstrap, topic, 1, [now_ms()])
        written += 1
        commit(muster.bootstrap, group, {(topic, 1): written})
        return committed(muster.bootstrap, group)

    with mirror_maker(connect(), muster.bootstrap, topic, group, tmp_path) as said:
        admin = AdminClient({"bootstrap.servers": muster.bootstrap})
        topics = lambda: admin.list_topics(timeout=30).topics  # noqa: E731
        eventually(topics, lambda found: mirrored in found, "the topic is mirrored", START_S)
        wanted = {(mirrored, 0): 0, (mirrored, 1): 100}
        eventually(
            lambda: ends(muster.bootstrap, mirrored, 2), lambda found: found == wanted, "the records are", START_S
        )
        altered = {"retention.ms": "777000000", "segment.jitter.ms": "1000", "preallocate": "true"}
        for name, value in altered.items():
            set_config(muster.bootstrap, topic, name, value)
        configs = lambda: own_configs(muster.bootstrap, mirrored)  # noqa: E731
        eventually(configs, lambda found: found.items() >= altered.items(), "the configs are")
        there = eventually(commit_at_the_end, lambda found: (mirrored, 1) in found, "the group's offset is", START_S)
        assert 100 < there[mirrored, 1] <= there[topic, 1] == written
        assert FAILED.findall(said.read_text()) == []

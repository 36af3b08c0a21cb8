"""Readers without a group: F13, F32 and F33."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.attribution.kop.rules import Ours
from tests.attribution.kop.world import World

REPOSITORY = Path(__file__).parents[3]
PENDING_MS = 60_000


def test_f13_assign_and_seek_without_a_commit(world: World) -> None:
    """Nothing on the wire names a group. Java does not even look up a coordinator, so KoP has "" as well; Muster
    reports the reason, and does not guess from other clients."""
    world.join(world.connect("B", "another"), "g", 0)
    fetched = world.fetch(world.connect("C", "reader"))
    world.wait(PENDING_MS)
    assert (fetched.kop, fetched.ours) == ("", "(no_group)")


def test_f13_a_default_client_id_of_java_is_a_hint(world: World, ours: Ours) -> None:
    """``consumer-<group>-<n>`` is no proof: it is reported as a hint, only without better evidence, of known groups."""
    world.join(world.connect("B", "another"), "reports", 0)
    fetched = world.fetch(world.connect("C", "consumer-reports-1"))
    world.wait(PENDING_MS)
    assert (fetched.kop, fetched.ours) == ("", "reports")
    assert ours.evidence("C") == "derived"


@pytest.mark.parametrize(
    ("client_id", "label"),
    [
        ("app-5c7f-StreamThread-1-restore-consumer", "(no_group)"),
        ("app-5c7f-global-consumer", "(no_group)"),
        ("consumer-null-2", "(no_group)"),
        ("consumer-mirror-maker-3", "(no_group)"),
        ("connector-consumer-sink-0", "(no_group)"),
    ],
)
def test_f32_consumers_that_work_without_their_group(world: World, client_id: str, label: str) -> None:
    """Streams' restore and global consumers (apache/kafka ClientUtils), MirrorMaker, Connect: they assign, and commit
    nothing or elsewhere. The application's own group is next to them, under other client ids."""
    world.join(world.connect("B", "app-5c7f-StreamThread-1-consumer"), "app", 0)
    fetched = world.fetch(world.connect("C", client_id))
    world.wait(PENDING_MS)
    assert (fetched.kop, fetched.ours) == ("", label)


def test_f33_readers_of_muster_itself_have_a_label_of_their_own(world: World) -> None:
    fetched = world.fetch(world.connect("C", "__muster_audit"))
    assert (fetched.kop, fetched.ours) == ("", "(internal)")


def test_f33_the_pipeline_reads_no_topic() -> None:
    """A job that read the metrics from a topic would be an unattributed consumer itself (F13). Muster's jobs read
    Parquet files: nothing in spark/ speaks Kafka."""
    speaks = re.compile(
        r"""format\(["']kafka|import (confluent_kafka|kafka|aiokafka)|from (confluent_kafka|kafka|aiokafka)"""
    )
    sources = sorted((REPOSITORY / "spark").rglob("*.py"))
    assert sources
    assert [source.name for source in sources if speaks.search(source.read_text())] == []

"""Readers without a group: F13, F32 and F33."""

from __future__ import annotations

import re
from pathlib import Path

from tests.attribution.kop.world import World

REPOSITORY = Path(__file__).parents[3]
PENDING_MS = 60_000


def test_f13_assign_and_seek_without_a_commit(world: World) -> None:
    """Nothing on the wire names a group. Java does not even look a coordinator up then, so KoP has "" as well; ours
    says why there is none, and does not guess from who else is there."""
    world.join(world.connect("B", "another"), "g", 0)
    fetched = world.fetch(world.connect("C", "reader"))
    world.wait(PENDING_MS)
    assert (fetched.kop, fetched.ours) == ("", "(no_group)")


def test_f33_the_pipeline_reads_no_topic() -> None:
    """A job that read the metrics from a topic would be an unattributed consumer itself (F13). Muster's jobs read
    Parquet files: nothing in spark/ speaks Kafka."""
    speaks = re.compile(
        r"""format\(["']kafka|import (confluent_kafka|kafka|aiokafka)|from (confluent_kafka|kafka|aiokafka)"""
    )
    sources = sorted((REPOSITORY / "spark").rglob("*.py"))
    assert sources
    assert [source.name for source in sources if speaks.search(source.read_text())] == []

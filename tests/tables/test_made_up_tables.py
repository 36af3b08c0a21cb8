"""The tables of benchmarks.tables: they match the schemas, are the same for a seed, and contain the planted facts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.tables import Made, make
from muster.actors.tables.inspection import verify
from muster.actors.tables.schemas import TABLES

SAMPLES = 20_000
HOURS = 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Made]:
    out = tmp_path_factory.mktemp("made") / "tables"
    return out, make(out, SAMPLES, hours=HOURS, seed=7)


def read(out: Path, table: str) -> pa.Table:
    files = sorted((out / "metrics" / table).rglob("*.parquet"))
    return pa.concat_tables([pq.ParquetFile(file).read() for file in files])


def test_every_table_is_there_with_its_schema(made: tuple[Path, Made]) -> None:
    out, facts = made
    for name, schema in TABLES.items():
        rows = read(out, name)
        assert rows.num_rows > 0
        assert rows.schema.names == schema.names
        assert rows.schema.metadata == schema.arrow.metadata
    assert facts.samples == read(out, "samples").num_rows == pytest.approx(SAMPLES, rel=0.2)


def test_every_file_is_sound_and_every_row_in_the_folder_of_its_hour(made: tuple[Path, Made]) -> None:
    assert [str(damage) for table in TABLES for damage in verify(made[0] / "metrics", table)] == []


def test_the_same_seed_makes_the_same_world(made: tuple[Path, Made], tmp_path: Path) -> None:
    again = make(tmp_path / "again", SAMPLES, hours=HOURS, seed=7)
    assert again.planted == made[1].planted
    assert read(tmp_path / "again", "samples").equals(read(made[0], "samples"))


def test_commits_are_where_the_samples_are(made: tuple[Path, Made]) -> None:
    out, facts = made
    samples = read(out, "samples").group_by(["topic", "partition"]).aggregate([("last_offset", "max")])
    sent = {(row["topic"], row["partition"]): row["last_offset_max"] for row in samples.to_pylist()}
    keys = ["group", "topic", "partition"]
    commits = read(out, "commits").group_by(keys).aggregate([("offset", "max")]).to_pylist()
    planted = facts.planted
    for row in commits:
        behind = sent[row["topic"], row["partition"]] + 1 - row["offset_max"]
        stalled = (row["group"], row["topic"], row["partition"]) == (
            planted.stalled_group,
            planted.stalled_topic,
            planted.stalled_partition,
        )
        assert behind > row["offset_max"] / 2 if stalled else 0 <= behind <= row["offset_max"] / 2


def test_the_hole_is_where_it_is_said(made: tuple[Path, Made]) -> None:
    out, facts = made
    samples = read(out, "samples")
    at = pc.cast(samples["ts"], pa.int64())
    inside = pc.and_(pc.greater_equal(at, facts.planted.hole_from_ms), pc.less(at, facts.planted.hole_to_ms))
    inside = pc.and_(inside, pc.equal(samples["gateway"], facts.planted.hole_gateway))
    share = [pc.mean(pc.is_null(samples.filter(mask)["group"])).as_py() for mask in (inside, pc.invert(inside))]
    assert share[0] == pytest.approx(facts.planted.hole_share, abs=0.1)
    assert share[1] < 0.03

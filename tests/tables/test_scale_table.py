"""Output of benchmarks.spark.scale: ratios, the limit, unknown values; tables kept for the next run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.report import Figures
from benchmarks.spark.runs import Cost, Run
from benchmarks.spark.scale import CHEAPEST_FIRST, compact_all, planted_end_ms, tables_at
from benchmarks.spark.table import Pair, as_figures, markdown
from muster.actors.tables.reading import files
from muster.actors.tables.rollups.files import rollup_of
from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs import JOBS

MACHINE = {"cores": 2, "memory_gib": 8, "python": "3.11.0", "load_average_1min_before": 0.1}


def run_of(job: str, seconds: float) -> Run:
    cost = Cost(
        seconds=seconds,
        peak_bytes=3 << 30,
        answered_rows=7,
        read_rows=50_000_000,
        read_bytes=600_000_000,
        shuffle_bytes=0,
        spilled_bytes=0,
        executor_ms=1000,
        gc_ms=10,
    )
    return Run(start_s=4.0, close_s=1.0, jobs={job: cost})


def pair_of(job: str, *, local: float, raydp: float) -> Pair:
    return Pair(job, runs={"local": run_of(job, local), "RayDP": run_of(job, raydp)})


@pytest.mark.parametrize(("raydp", "met"), [(114.0, True), (116.0, False)])
def test_the_limit_is_on_all_jobs_that_both_sides_have(raydp: float, met: bool) -> None:
    half = Pair("lag", runs={"local": run_of("lag", 500.0)}, left_out={"RayDP": "the budget is spent"})
    figures = Figures()
    as_figures(
        [pair_of("consumption", local=90.0, raydp=raydp - 11.0), pair_of("failover", local=10, raydp=11), half], figures
    )
    assert figures.met is met
    assert figures[-1].value == pytest.approx(raydp / 100)


def test_nothing_to_compare_meets_no_limit() -> None:
    figures = Figures()
    as_figures([Pair("lag", left_out={"local": "the budget is spent"})], figures)
    assert not figures


def test_the_page_has_a_row_per_job_and_what_was_left_out() -> None:
    pairs = [
        pair_of("consumption", local=100.0, raydp=110.0),
        Pair("lag", runs={"local": run_of("lag", 500.0)}, left_out={"RayDP": "it was not\ndone after 9 s"}),
    ]
    figures = Figures()
    as_figures(pairs, figures)
    page = markdown(pairs, figures, MACHINE)
    lines = page.splitlines()
    assert "| consumption | 100.0 | 110.0 | 1.10 | 3,072 | 3,072 | 50,000,000 | 600 | 0 | 0 |" in lines
    assert "| lag | 500.0 | - | - | 3,072 | - | 50,000,000 | 600 | 0 | 0 |" in lines
    assert "| all | 100.0 | 110.0 | 1.10 |" in page
    assert "lag, RayDP: it was not done after 9 s" in lines


def test_every_job_has_its_place_in_the_order() -> None:
    assert sorted(CHEAPEST_FIRST) == sorted(JOBS)


def test_tables_are_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "kept" / "small"
    assert tables_at(folder, 0.01) == folder
    before = sorted(folder.rglob("*.parquet"))
    assert planted_end_ms(folder) > 0
    made = before[0].stat().st_mtime_ns
    assert tables_at(folder, 0.01) == folder
    assert before[0].stat().st_mtime_ns == made
    assert [entry.name for entry in folder.parent.iterdir()] == ["small"]


def test_compacted_tables_are_rolled_up_and_stay_so(tmp_path: Path) -> None:
    folder, figures = tables_at(tmp_path / "small", 0.01), Figures()
    before = len(files(folder, SAMPLES))
    for _ in range(2):
        compact_all(folder, figures)
        found = sorted(folder.rglob(f"metrics/{SAMPLES}/*/*/*.parquet"))
        assert found == files(folder, SAMPLES), "none that is superseded"
        assert len(found) < before
        assert all(rollup_of(file) for file in found)
    assert [figure.unit for figure in figures] == ["s"] * 4

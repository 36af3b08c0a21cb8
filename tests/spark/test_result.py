"""From a job's sections to the output for a person, a program and a page."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from muster.spark import command
from muster.spark.jobs.job import Job, Options, Plot, Section
from muster.spark.progress import Progress
from muster.spark.render.report_page import render_results
from muster.spark.render.showing import print_results, to_json
from muster.spark.request import BadRequest, Request
from muster.spark.result import JobFailed, JobResult, run_job

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
OPTIONS = Options(now=NOON, timezone="Europe/Berlin", groups=frozenset({"billing"}))

_ROWS = """
    SELECT * FROM VALUES
      (TIMESTAMP '2026-05-01 10:00:00', 'billing', 10L, 1.5D, ARRAY('a', 'b')),
      (TIMESTAMP '2026-05-01 10:01:00', 'billing', 3000000L, 0.0D, ARRAY()),
      (TIMESTAMP '2026-05-01 10:00:00', '<script>alert(1)</script>', NULL, 2.25D, NULL)
    AS rows(bucket, group, bytes, rate, topics)
"""

_ODD = """
    SELECT double('NaN') AS nan, double('-Infinity') AS infinite, ARRAY(double('Infinity'), 1.0D, NULL) AS several,
      NAMED_STRUCT('at', TIMESTAMP '2026-10-25 00:30:00', 'share', double('NaN')) AS nested, 1.50BD AS price,
      TIMESTAMP '2026-10-25 01:30:00' AS second_half_past_two, DATE '2026-10-25' AS day, X'00FF' AS raw
"""


@pytest.fixture(scope="module")
def result(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> JobResult:
    def sections(tables: object, options: Options) -> list[Section]:
        rows = spark.sql(_ROWS)
        lines = Plot(kind="lines", x=("bucket",), y="bytes", y_label="bytes", series=("group",))
        bars = Plot(kind="bars", x=("group",), y="rate", y_label="rate")
        return [
            Section("over_time", "Bytes over time", rows, "Of made-up rows.", plot=lines),
            Section("ranking", "Rates", rows, plot=bars),
            Section("odd", "What JSON has no word for", spark.sql(_ODD)),
            Section("none", "What is not", rows.where("bytes < 0"), plot=bars),
            Section("large", "For programs", rows, bulk=True),
        ]

    job = Job(name="made_up", title="A made-up job", tables=(), sections=sections)
    return run_job(job, spark, tmp_path_factory.mktemp("storage"), OPTIONS)


def test_json_has_every_row_with_times_in_the_requested_zone(result: JobResult) -> None:
    decoded = json.loads(to_json([result], OPTIONS))
    assert (decoded["timezone"], decoded["groups"], decoded["from"]) == ("Europe/Berlin", ["billing"], None)
    sections = decoded["jobs"]["made_up"]
    assert list(sections) == ["over_time", "ranking", "odd", "none"]
    assert sections["over_time"]["types"]["bytes"] == "bigint"
    assert sections["over_time"]["complete"] is True
    assert sections["over_time"]["rows"][0] == {
        "bucket": "2026-05-01T12:00:00+02:00",
        "group": "billing",
        "bytes": 10,
        "rate": 1.5,
        "topics": ["a", "b"],
    }
    assert sections["none"]["rows"] == []


def test_json_is_valid_whatever_the_values_are(result: JobResult) -> None:
    def no_json(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    for indent in (2, None):
        text = to_json([result], OPTIONS, indent=indent)
        decoded = json.loads(text, parse_constant=no_json)
    assert "\n" not in text
    assert decoded["jobs"]["made_up"]["odd"]["rows"] == [
        {
            "nan": None,
            "infinite": None,
            "several": [None, 1.0, None],
            "nested": {"at": "2026-10-25T02:30:00+02:00", "share": None},
            "price": 1.5,
            "second_half_past_two": "2026-10-25T02:30:00+01:00",
            "day": "2026-10-25",
            "raw": "00ff",
        }
    ]


def test_the_table_is_for_people(result: JobResult) -> None:
    out = io.StringIO()
    print_results([result], Console(file=out, width=160, highlight=False))
    text = out.getvalue()
    assert "Of made-up rows." in text
    row = next(line for line in text.splitlines() if "3,000,000" in line)
    assert row.split() == ["2026-05-01", "12:01:00", "billing", "3,000,000", "0"]
    assert "nothing" in text.split("What is not")[1]


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.images: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.links += [str(value) for name, value in attrs if name in {"src", "href", "xlink:href"}]
        self.ids += [str(values["id"])] if values.get("id") else []
        self.images += [str(values["aria-label"])] if tag == "figure" else []
        if tag in {"section", "table", "figure", "details", "main", "tr"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in {"section", "table", "figure", "details", "main", "tr"} and self.open.pop() != tag:
            self.unbalanced.append(tag)


def test_the_page_needs_no_network_and_says_in_words_what_its_plots_show(result: JobResult) -> None:
    text = render_results([result], OPTIONS, ["job lag: commits/x.parquet: is damaged"])
    page = _Page(text)
    assert "script" not in page.tags
    assert all(link.startswith("#") for link in page.links)
    assert len(page.ids) == len(set(page.ids))
    assert (page.open, page.unbalanced) == ([], [])
    over_time, ranking = page.images
    assert "billing at most 3,000,000" in over_time
    assert "billing 1.5" in ranking
    assert "&lt;script&gt;alert(1)" in text
    assert "prefers-color-scheme: dark" in text
    assert "1 question not answered" in text
    assert "job lag: commits/x.parquet: is damaged" in text
    assert "Nothing: What is not." in text


def test_of_what_is_too_much_to_fetch_the_plots_have_what_they_draw(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six groups over ten hours; the fetched rows end in the first."""
    monkeypatch.setattr("muster.spark.result.MAX_ROWS", 100)
    minutes = spark.range(600).selectExpr("timestamp_seconds(60 * id) AS bucket", "id")
    rows = minutes.selectExpr("bucket", "EXPLODE(SEQUENCE(0, 5)) AS number", "id").selectExpr(
        "bucket", "NULLIF(CONCAT('g-', number), 'g-3') AS group", "IF(id % 7 = 3, number, 0) AS bytes"
    )

    def sections(tables: object, options: Options) -> list[Section]:
        lines = Plot(kind="lines", x=("bucket",), y="bytes", y_label="bytes", series=("group",))
        bars = Plot(kind="bars", x=("bucket",), y="bytes", y_label="bytes", series=("group",))
        return [Section(plot.kind, "", rows.orderBy("bucket", "group"), plot=plot) for plot in (lines, bars)]

    job = Job(name="large", title="", tables=(), sections=sections)
    lines, bars = run_job(job, spark, tmp_path, Options(now=NOON), plots=True).sections
    assert (len(lines.rows), lines.cut) == (100, True)
    assert lines.plotted is not None
    assert (lines.plotted.in_all, lines.plotted.step_seconds) == (6, 120)
    assert set(lines.plotted.values("group")) == {"g-2", None, "g-4", "g-5"}
    assert len(lines.plotted.rows) == 4 * 300
    assert max(lines.plotted.values("bucket")) - min(lines.plotted.values("bucket")) == timedelta(minutes=598)
    assert bars.plotted is not None
    assert bars.plotted.in_all == 600
    assert sum(bars.plotted.values("bytes")) == 8 * 15
    assert run_job(job, spark, tmp_path, Options(now=NOON)).sections[0].plotted is None


class Silent(Progress):
    def step(self, text: str) -> None:
        pass


def test_on_small_tables_two_jobs_run_at_a_time_and_are_reported_in_order(spark: SparkSession, tmp_path: Path) -> None:
    both = threading.Barrier(2)
    has_session = []

    def sections(tables: object, options: Options) -> list[Section]:
        both.wait(60)
        assert spark._jvm is not None
        has_session.append(spark._jvm.SparkSession.getActiveSession().isDefined())
        return [Section("rows", "Rows", spark.range(1))]

    jobs = [Job(name=name, title="", tables=(), sections=sections) for name in ("first", "second")]
    request = Request(storage=tmp_path, jobs=(), options=OPTIONS)
    results, damage = command._results(request, jobs, spark, Silent())
    assert ([each.job for each in results], damage) == (["first", "second"], [])
    assert has_session == [True, True]


def test_what_spark_stumbles_over_is_one_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def sections(tables: object, options: Options) -> list[Section]:
        return [Section("bad", "Bad", spark.range(1).select(F.raise_error(F.lit("the moon is full"))))]

    with pytest.raises(JobFailed, match=r"\Ajob bad: .*the moon is full( SQLSTATE: P0001)?\Z"):
        run_job(Job(name="bad", title="", tables=(), sections=sections), spark, tmp_path, OPTIONS)
    assert capsys.readouterr().err == ""


def test_a_request_is_read_back_and_a_wrong_one_refused() -> None:
    fields = {
        "storage": "/data",
        "jobs": ["lag"],
        "options": {"start": "2026-05-01T12:00:00+02:00", "top": None, "groups": ["a"], "now": NOON.isoformat()},
        "out": None,
        "executors": 2,
    }
    request = Request.from_json(json.dumps(fields))
    assert (request.storage, request.jobs, request.executors, request.out) == (Path("/data"), ("lag",), 2, None)
    assert request.options == Options(start=NOON.replace(hour=10), groups=frozenset({"a"}), now=NOON)
    for text in ("", "[]", "{}", json.dumps({**fields, "more": 1}), json.dumps({**fields, "options": {"n": 1}})):
        with pytest.raises(BadRequest, match="this is no request"):
            Request.from_json(text)


def test_what_one_job_persisted_is_released_by_the_next(spark: SparkSession, tmp_path: Path) -> None:
    def held_after(frame: Callable[[], DataFrame]) -> int:
        job = Job(name="made_up", title="", tables=(), sections=lambda *_: [Section("rows", "", frame())])
        run_job(job, spark, tmp_path, OPTIONS)
        return len(spark.sparkContext._jsc.getPersistentRDDs())

    assert held_after(lambda: spark.range(3).persist()) == 1
    assert held_after(lambda: spark.range(4)) == 0

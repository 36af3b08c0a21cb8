"""Shares, holes and drift: small tables computed by hand, and a generated hole that the job must find."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.actors.tables.schemas.groups import REGISTRATIONS
from muster.actors.tables.schemas.offsets import COMMITS
from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs.attribution import JOB, reasons, shares
from muster.spark.jobs.attribution_drift import drift
from muster.spark.jobs.attribution_holes import holes, restarts, volumes
from muster.spark.jobs.job import Options
from tests.spark.rows import at, picked, result, table

Row = dict[str, Any]


def sample(at_s: float, *, first: int = 0, last: int = 9, **changes: Any) -> Row:
    return {
        "ts": at(at_s),
        "last_ts": at(at_s),
        "gateway": 0,
        "group": None if "reason" in changes else "billing",
        "client_id": "rdkafka",
        "host": "10.0.0.1",
        "topic": "flights",
        "partition": 0,
        "evidence": "none" if "reason" in changes else "assignment",
        "messages": last - first + 1,
        "bytes": 100 * (last - first + 1),
        "fetches": 1,
        "first_offset": first,
        "last_offset": last,
        **changes,
    }


def life(at_s: float, actor: str, event: str) -> Row:
    return {"ts": at(at_s), "actor": actor, "kind": actor.partition("-")[0], "event": event, "seen_by": "controller"}


def minutes(gateway: int, shares_without: Iterable[float], *, first: int = 0) -> list[Row]:
    """For each share and minute, samples of 10,000 bytes in total, some with a group and some without."""
    rows = []
    for minute, share in enumerate(shares_without, start=first):
        without = round(10_000 * share)
        if without < 10_000:
            rows.append(sample(60 * minute + 5, gateway=gateway, bytes=10_000 - without))
        if without:
            rows.append(sample(60 * minute + 5, gateway=gateway, bytes=without, reason="no_group"))
    return rows


def seconds_of(moment: datetime) -> float:
    """Since noon; Spark returns local times without a zone to Python."""
    return (moment.astimezone(at(0).tzinfo) - at(0)) / timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Scene:
    """The events of one scene: the holes of all scenes are computed at once, with a single plan."""

    samples: Sequence[Row]
    events: Sequence[Row] = ()

    def moved(self, number: int) -> Scene:
        """Each scene has its own day, gateways and topic."""
        later = timedelta(seconds=number * _DAY_S)

        def elsewhere(row: Row) -> Row:
            return {**row, **{name: row[name] + later for name in ("ts", "last_ts") if name in row}}

        samples = [
            elsewhere(row) | {"gateway": _GATEWAYS * number + row["gateway"], "topic": f"{row['topic']}-{number}"}
            for row in self.samples
        ]
        events = [elsewhere(row) | {"actor": _renamed(row["actor"], _GATEWAYS * number)} for row in self.events]
        return Scene(samples, events)


_GATEWAYS = 100
_DAY_S = 86_400
SCENES: dict[str, Scene] = {}
"""By the name that a test uses. The first one starts the table; the others continue it."""
Holes = Callable[..., list[tuple[Any, ...]]]


def _renamed(actor: str, by: int) -> str:
    kind, _, number = actor.partition("-")
    return f"{kind}-{int(number) + by}"


@pytest.fixture(scope="module")
def holes_of(spark: SparkSession) -> Holes:
    """Return a maker of a scene's holes: these columns of each, times in seconds since noon of its day."""
    scenes = [scene.moved(number) for number, scene in enumerate(SCENES.values())]
    samples = table(spark, SAMPLES, (row for scene in scenes for row in scene.samples))
    events = table(spark, LIFECYCLE, (row for scene in scenes for row in scene.events))
    rows = holes(volumes(samples, seconds=60), events, seconds=60).collect()

    def of(name: str, *columns: str) -> list[tuple[Any, ...]]:
        number = list(SCENES).index(name)

        def in_scene(column: str, value: Any) -> Any:
            if isinstance(value, datetime):
                return seconds_of(value) - number * _DAY_S
            if column == "restarted" and value is not None:
                return _renamed(value, -_GATEWAYS * number)
            return value - _GATEWAYS * number if column == "gateway" else value

        its_own = [row for row in rows if row["gateway"] // _GATEWAYS == number]
        return [tuple(in_scene(column, row[column]) for column in columns) for row in its_own]

    return of


def test_shares_by_reason(spark: SparkSession) -> None:
    sent = volumes(
        table(
            spark,
            SAMPLES,
            [
                sample(1, bytes=600),
                sample(59.9, bytes=150),
                sample(2, bytes=200, reason="no_group"),
                sample(3, bytes=50, reason="pending"),
                sample(4, bytes=5000, reason="internal"),
                sample(60, bytes=10, reason="ambiguous"),
                sample(61, bytes=7, reason="internal", gateway=1),
            ],
        ),
        seconds=60,
    )
    columns = ["gateway", "bytes", "unattributed_bytes", "unattributed_share"]
    by_reason = ["no_group_bytes", "ambiguous_bytes", "other_reason_bytes", "internal_bytes"]
    assert result(shares(sent), *columns, *by_reason) == [
        (0, 1000, 250, 0.25, 200, 0, 50, 5000),
        (0, 10, 10, 1.0, 0, 10, 0, 0),
        (1, 0, 0, None, 0, 0, 0, 7),
    ]
    assert result(reasons(sent), "reason", "bytes", "share")[:2] == [("internal", 5007, None), (None, 750, 750 / 1010)]
    with pytest.raises(ValueError, match="second"):
        volumes(table(spark, SAMPLES, []), seconds=0)


SCENES["nothing"] = Scene(
    minutes(0, [0, 0, 0, 0, 1, 0, 0, 0, 0, 0])  # a blip
    + minutes(1, [0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.5, 0.9, 0.8, 0.9])
    + minutes(2, [0.5] * 10)
    + minutes(3, [0, 0.5, 0.5, 0.5, 0.5])  # too little before it, and as old as the others
    + [sample(60 * n, gateway=4, bytes=1_000_000) for n in range(10)]
)


def test_what_is_no_hole(holes_of: Holes) -> None:
    assert holes_of("nothing", "gateway") == []


SCENES["own restart"] = Scene(
    minutes(0, [0] * 12) + minutes(1, [0, 0, 0, 0, 0.5, 0.8, 0.8, 0.8, 0, 0, 0, 0]),
    [
        life(-50, "gateway-1", "starting"),
        life(-40, "gateway-1", "serving"),
        life(235, "gateway-1", "lost"),
        life(236, "gateway-1", "starting"),
        life(239, "gateway-1", "serving"),
        life(230, "log-0", "lost"),
    ],
)


def test_a_hole_after_the_gateways_own_restart(holes_of: Holes) -> None:
    columns = ["gateway", "began", "ended", "bytes", "unattributed_bytes", "lost_bytes", "share", "others_share"]
    assert holes_of("own restart", *columns) == [(1, 240.0, 480.0, 40_000, 29_000, 29_000, 0.725, 0.0)]
    cause = ["cause", "restarted", "restart_began", "restart_ended", "is_everywhere", "reason", "client_id", "host"]
    assert holes_of("own restart", *cause) == [
        ("gateway_restarted", "gateway-1", 235.0, 239.0, False, "no_group", "rdkafka", "10.0.0.1")
    ]


SCENES["the article"] = Scene(
    minutes(0, [0] * 5)
    + minutes(0, [0.6] * 7, first=13)
    + minutes(1, [0] * 20)
    + minutes(2, [0] * 5 + [0.6] * 8 + [0] * 7),
    [
        life(290, "gateway-0", "lost"),
        life(310, "gateway-0", "serving"),
        life(770, "gateway-2", "moved"),
        life(785, "gateway-2", "serving"),
    ],
)


def test_the_hole_of_the_article_is_in_the_gateway_that_took_over(holes_of: Holes) -> None:
    """Broker A restarts; its partition moves to C, which finds no group, until C restarts and the hole moves to A."""
    columns = ["gateway", "began", "ended", "lost_bytes", "cause", "restarted"]
    assert holes_of("the article", *columns) == [
        (0, 780.0, None, 42_000, "other_gateway_restarted", "gateway-2"),
        (2, 300.0, 780.0, 48_000, "other_gateway_restarted", "gateway-0"),
    ]


SCENES["a new gateway"] = Scene(
    minutes(0, [0] * 8) + minutes(1, [0] * 8) + minutes(2, [0.7] * 5, first=3),
    [life(-421, "gateway-3", "stopped")],  # for good, 601 s before
)


def test_a_gateway_that_is_new_is_compared_with_the_others(holes_of: Holes) -> None:
    columns = ["gateway", "began", "ended", "expected_share", "cause", "restarted"]
    assert holes_of("a new gateway", *columns) == [(2, 180.0, None, 0.0, "labels_lost", None)]


SCENES["no group"] = Scene(
    minutes(0, [0] * 10)
    + minutes(1, [0] * 10)
    + [sample(60 * n + 7, gateway=1, bytes=9000, client_id="export", reason="no_group") for n in range(5, 10)],
    [life(280, "gateway-1", "lost"), life(290, "gateway-1", "serving")],
)


def test_a_reader_without_a_group_lost_nothing(holes_of: Holes) -> None:
    columns = ["gateway", "cause", "client_id", "had_group_bytes"]
    assert holes_of("no group", *columns) == [(1, "reader_without_group", "export", 0)]


SCENES["not a member"] = Scene(
    minutes(0, [0] * 10)
    + minutes(1, [0] * 10)
    + [sample(60 * n + 7, gateway=1, bytes=9000, reason="not_member") for n in range(5, 10)]
)


def test_a_reader_that_looks_like_a_groups_member_lost_nothing(holes_of: Holes) -> None:
    assert holes_of("not a member", "gateway", "cause", "had_group_bytes") == [(1, "reader_without_group", 0)]


SCENES["everywhere"] = Scene(
    [row for gateway in range(3) for row in minutes(gateway, [0] * 5 + [0.5] * 5)],
    [life(-400, "gateway-1", "lost"), life(-301, "gateway-1", "serving")],  # 601 s before: for too long
)


def test_a_hole_in_all_gateways_is_said_to_be_everywhere(holes_of: Holes) -> None:
    assert holes_of("everywhere", "gateway", "is_everywhere", "cause") == [
        (gateway, True, "labels_lost") for gateway in range(3)
    ]


SCENES["as ever"] = Scene(minutes(0, [0.5] * 10) + minutes(1, [0] * 5 + [0.6] * 5))


def test_what_the_others_had_before_is_no_rise_of_theirs(holes_of: Holes) -> None:
    *_, last = holes_of("as ever", "gateway", "others_share", "is_everywhere")  # gateway 0 itself began with a hole
    assert last == (1, 0.5, False)


SCENES["calm"] = Scene(
    minutes(0, [0] * 14)
    + minutes(1, [0] * 5 + [0.6] * 4 + [0] + [0.6] * 4)
    + minutes(2, [0] * 5 + [0.6] * 8 + [0]),  # the following minutes are unknown
    [life(-300, "gateway-3", "lost")],  # for good, 600 s before
)


def test_a_single_calm_step_does_not_end_a_hole(holes_of: Holes) -> None:
    assert holes_of("calm", "gateway", "began", "ended", "restarted") == [
        (gateway, 300.0, None, "gateway-3") for gateway in (1, 2)
    ]


def _planted() -> Scene:
    """Five gateways for three hours, a share of 1 to 5% without a group, idle minutes; gateway-3 restarts at 01:20."""
    chance = random.Random(5)
    samples: list[Row] = []
    for gateway in range(5):
        for minute in range(180):
            if chance.random() < 0.1:
                continue
            is_hole = gateway == 3 and 80 <= minute < 131
            size = chance.randrange(5_000, 50_000)
            without = round(size * (chance.uniform(0.5, 0.7) if is_hole else chance.uniform(0.01, 0.05)))
            client: Row = {"gateway": gateway, "client_id": chance.choice(["rdkafka", "sarama"])}
            samples.append(sample(60 * minute + 1, bytes=size - without, **client))
            samples.append(sample(60 * minute + 2, bytes=without, reason="no_group", **client))
    return Scene(samples, [life(4790, "gateway-3", "lost"), life(4797, "gateway-3", "serving")])


SCENES["planted"] = _planted()


def test_a_planted_hole_among_noise_is_the_one_that_is_named(holes_of: Holes) -> None:
    planted = sum(
        row["bytes"]
        for row in SCENES["planted"].samples
        if row["gateway"] == 3 and row["group"] is None and at(80 * 60) <= row["ts"] < at(131 * 60)
    )
    columns = ["gateway", "began", "ended", "unattributed_bytes", "lost_bytes", "cause", "restarted"]
    [(gateway, began, ended, without, lost, cause, restarted)] = holes_of("planted", *columns)
    assert (gateway, cause, restarted, without) == (3, "gateway_restarted", "gateway-3", planted)
    assert 4800 <= began <= 4860
    assert 131 * 60 <= ended <= 133 * 60
    assert 0.9 * planted < lost < planted


def test_a_restart_is_what_ended_and_not_what_was_found(spark: SparkSession) -> None:
    events = table(
        spark,
        LIFECYCLE,
        [
            life(0, "gateway-0", "serving"),
            life(10, "gateway-0", "lost"),
            life(11, "gateway-0", "starting"),
            life(20, "gateway-0", "serving"),
            life(30, "gateway-0", "stopped"),
            life(5, "offsets-1", "lost"),
        ],
    )
    rows = result(restarts(events).orderBy("restart_began"), "actor", "restart_began", "restart_ended")
    assert [(actor, seconds_of(began), ended and seconds_of(ended)) for actor, began, ended in rows] == [
        ("gateway-0", 10.0, 20.0),
        ("gateway-0", 30.0, None),
    ]


def committed(at_s: float, previous: int | None, offset: int | None, **changes: Any) -> Row:
    return {
        "ts": at(at_s),
        "offsets_partition": 7,
        "epoch": 1,
        "group": "billing",
        "topic": "flights",
        "partition": 0,
        "kind": "commit",
        "previous": previous,
        "offset": offset,
        "lowest": offset,
        "commits": 1,
        **changes,
    }


READ: dict[str, tuple[Sequence[Row], Sequence[Row]]] = {}
"""Samples and commits by their topic: drift is computed for all of them at once."""
Drifts = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def drifts_of(spark: SparkSession) -> Drifts:
    """Return a maker of a topic's drift: these columns of each row."""
    samples = [{**row, "topic": topic} for topic, (sent, _) in READ.items() for row in sent]
    commits = [{**row, "topic": topic} for topic, (_, said) in READ.items() for row in said]
    rows = drift(table(spark, SAMPLES, samples), table(spark, COMMITS, commits)).collect()
    return lambda topic, *columns: picked((row for row in rows if row["topic"] == topic), *columns)


READ["all"] = (
    [
        sample(1, first=0, last=49),
        sample(2, first=50, last=99),
        sample(3, first=40, last=59),  # sent again
        sample(4, first=0, last=99, group="archive"),
    ],
    [committed(5, 0, 60), committed(6, 60, 90), committed(7, None, 10), committed(8, 200, 30)],
)


def test_commits_and_samples_agree(drifts_of: Drifts) -> None:
    columns = ["group", "implied_bytes", "attributed_bytes", "missing_bytes", "ahead_bytes", "cause"]
    assert drifts_of("all", *columns) == [("billing", 9000, 10_000, 0, 1000, "none")]


READ["not all"] = (
    [
        sample(1, first=0, last=29),
        sample(2, first=30, last=79, reason="no_group"),
        sample(3, first=0, last=99, group="archive"),
        sample(4, first=0, last=9, partition=1),
        sample(5, first=20, last=29, partition=1),
        sample(6, first=0, last=99, partition=1, reason="internal"),
        sample(7, first=0, last=99, partition=2, group="archive"),
    ],
    [
        committed(9, 0, 100),  # 0-29 its own, 30-79 unattributed, 80-99 only the archive's
        committed(9, 0, 30, partition=1),  # 10-19 sent to no group
        committed(9, 0, 50, partition=2),
        committed(9, 100, None, partition=2, kind="expired"),
    ],
)


def test_what_is_missing_and_where_it_went(drifts_of: Drifts) -> None:
    columns = ["partition", "implied_bytes", "attributed_bytes", "missing_bytes", "unattributed_bytes", "skipped_bytes"]
    assert drifts_of("not all", *columns, "cause") == [
        (0, 10_000, 3000, 7000, 5000, 0, "unattributed"),
        (2, 5000, 0, 5000, 0, 0, "other_groups_only"),
        (1, 3000, 2000, 1000, 0, 1000, "skipped"),
    ]


READ["two sizes"] = (
    [
        sample(1, first=1000, last=4095),
        sample(2, first=4096, last=5095, bytes=10_000, reason="no_group"),
    ],
    [committed(9, 0, 5096)],
)


def test_bytes_per_offset_are_those_of_the_block(drifts_of: Drifts) -> None:
    """Records of 100 bytes up to 4096, of 10 bytes after it; what was read before the table begins is not missing."""
    columns = ["implied_offsets", "implied_bytes", "missing_bytes", "missing_share"]
    assert drifts_of("two sizes", *columns) == [(4096, 309_600 + 10_000, 10_000, pytest.approx(10_000 / 319_600))]


def test_empty_tables_and_plans_with_what_is_needed_only(spark: SparkSession, tmp_path: Path) -> None:
    """Columns that no result needs are not read, and rows of samples are joined by equal keys."""
    tables: dict[str, DataFrame] = {}
    for name in JOB.tables:
        table(spark, name, []).write.parquet(str(tmp_path / name))
        tables[name] = spark.read.parquet(str(tmp_path / name))
    for section in JOB.sections(tables, Options()):
        plan = _plan(section.frame)
        assert section.frame.collect() == [], section.name
        assert "ReadSchema" in plan
        for unwanted in ("fetches", "Cartesian", "PythonUDF", "EvalPython"):
            assert unwanted not in plan, (section.name, unwanted)
        if section.name in ("drift", "reattributed"):
            assert "NestedLoop" not in plan, section.name
    assert REGISTRATIONS in JOB.history


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())

"""Failover: outages of actors, from the table ``lifecycle``.

An outage of an actor begins when it is ``lost``, or when it was killed or paused on purpose, if the table ``faults``
shows that and the loss was seen within :data:`FAULT_SEEN_MS` after it: the detection time is then known. It ends when
the actor is ``serving`` again, possibly by the standby that serves in its place, or was ``stopped``. A
further loss before it serves again does not begin another outage. An actor that is ``moved`` is unavailable, too, but
that is no failover, even if it is reported lost meanwhile: see :func:`moves`.

Several processes watch the controller. One that notices its loss when a later epoch already serves adds nothing, and
is left out. Times are by the clocks of the observers; negative ones count as zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from muster.actors.tables.schemas.cluster import FAULTS, LIFECYCLE
from muster.spark.jobs.job import Job, Options, Plot, Section

FAULT_SEEN_MS = 120_000
"""Longest time from a kill or pause of an actor to a loss that it caused."""
CLOCK_SKEW_MS = 5_000
"""Longest time by which that may have been later than its loss, or a move that looked like one, by the clock of the
loss's observer."""

_LOST, _STARTING, _SERVING, _MOVED, _STOPPED, _FAULT = "lost", "starting", "serving", "moved", "stopped", "fault"
_ORDER = (_FAULT, _LOST, _MOVED, _STARTING, _SERVING, _STOPPED)
"""Order of events in the same millisecond."""
_HARD_ACTIONS = ("kill", "pause")
_UNKNOWN_NODE = "(unknown)"


def outages(lifecycle: DataFrame, faults: DataFrame, *, now: datetime) -> DataFrame:
    """Return actor, kind, node_id (where it was lost; null: not known), began, lost (when that was seen), recovered
    (null: it has not, or it was stopped), ending (serving, stopped, open), fault (kill, pause; null: none), reason,
    recovered_by (why it serves again), detect_seconds (from a fault to the loss; null without one), seconds (from
    began; null unless it recovered), open_seconds (until ``now``; null unless it is open); by actor and time."""
    spells = _spells(lifecycle, faults).where(F.col("lost_ms").isNotNull() & ~_is_move())
    is_open = F.col("ending") == "open"
    now_ms = F.lit(round(now.timestamp() * 1000))
    began_ms = F.least("fault_ms", "lost_ms")
    recovered_ms = F.when(F.col("ending") == _SERVING, F.col("ended_ms"))
    return spells.select(
        "actor",
        "kind",
        "node_id",
        F.timestamp_millis(began_ms).alias("began"),
        F.timestamp_millis("lost_ms").alias("lost"),
        F.timestamp_millis(recovered_ms).alias("recovered"),
        "ending",
        "fault",
        "reason",
        F.when(F.col("ending") == _SERVING, F.col("end_reason")).alias("recovered_by"),
        _seconds(F.col("lost_ms") - F.col("fault_ms")).alias("detect_seconds"),
        _seconds(recovered_ms - began_ms).alias("seconds"),
        F.when(is_open, _seconds(now_ms - began_ms)).alias("open_seconds"),
    ).orderBy("actor", "began")


def moves(lifecycle: DataFrame, faults: DataFrame) -> DataFrame:
    """Return actor, kind, moved (timestamp), node_id (from where), seconds (until it served again; null: it did
    not)."""
    served = F.when(F.col("ending") == _SERVING, F.col("ended_ms"))
    return (
        _spells(lifecycle, faults)
        .where(_is_move())
        .select(
            "actor",
            "kind",
            F.timestamp_millis("moved_ms").alias("moved"),
            F.col("moved_node_id").alias("node_id"),
            _seconds(served - F.col("moved_ms")).alias("seconds"),
        )
        .orderBy("actor", "moved")
    )


def per_kind(of_actors: DataFrame) -> DataFrame:
    """Return kind, actors, outages, recovered, not_ended, median_seconds, p99_seconds, max_seconds,
    detect_median_seconds; nearest ranks; kinds with actors that do not serve first, then by the longest outage."""
    is_down = F.col("not_ended") > 0
    return _summed(of_actors, "kind").orderBy(is_down.desc(), F.col("max_seconds").desc_nulls_last(), "kind")


def per_node(of_actors: DataFrame) -> DataFrame:
    """Return :func:`per_kind` by node_id and kind: where the actors were lost."""
    placed = of_actors.withColumn("node_id", F.coalesce("node_id", F.lit(_UNKNOWN_NODE)))
    return _summed(placed, "node_id", "kind").orderBy(F.col("outages").desc(), "node_id", "kind")


def _summed(of_actors: DataFrame, *by: str) -> DataFrame:
    return of_actors.groupBy(*by).agg(
        F.count_distinct("actor").alias("actors"),
        F.count("*").alias("outages"),
        F.count_if(F.col("ending") == _SERVING).alias("recovered"),
        F.count_if(F.col("ending") == "open").alias("not_ended"),
        F.percentile_approx("seconds", 0.5).alias("median_seconds"),
        F.percentile_approx("seconds", 0.99).alias("p99_seconds"),
        F.max("seconds").alias("max_seconds"),
        F.percentile_approx("detect_seconds", 0.5).alias("detect_median_seconds"),
    )


def _spells(lifecycle: DataFrame, faults: DataFrame) -> DataFrame:
    """Return the events of each actor from one ``serving`` or ``stopped`` to the next, which is included."""
    events = _lifecycle_rows(lifecycle).unionByName(_fault_rows(faults), allowMissingColumns=True)
    order = Window.partitionBy("actor").orderBy("at_ms", "place")
    ends = F.col("event").isin(_SERVING, _STOPPED)
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    numbered = events.select(
        "*",
        F.coalesce(F.sum(ends.cast("int")).over(before), F.lit(0)).alias("spell"),
        F.max(F.when(F.col("event") == _SERVING, F.col("epoch"))).over(before).alias("serving_epoch"),
        F.last(F.when(F.col("event") == _SERVING, F.col("node_id")), ignorenulls=True).over(before).alias("served_on"),
    )
    is_stale = F.coalesce((F.col("event") == _LOST) & (F.col("epoch") < F.col("serving_epoch")), F.lit(False))
    known = numbered.where(~is_stale)
    lost_ms = F.min(_at(_LOST)).over(Window.partitionBy("actor", "spell"))
    known = known.withColumn("first_lost_ms", lost_ms)
    near = F.col("at_ms").between(F.col("first_lost_ms") - FAULT_SEEN_MS, F.col("first_lost_ms") + CLOCK_SKEW_MS)
    end = F.max_by(F.struct("event", "at_ms", "reason"), F.when(ends, F.col("at_ms")))
    return (
        known.groupBy("actor", "spell")
        .agg(
            F.max("kind").alias("kind"),
            F.min("first_lost_ms").alias("lost_ms"),
            F.min(F.when(near, _at(_FAULT))).alias("fault_ms"),
            F.min_by("action", F.when(near, _at(_FAULT))).alias("fault"),
            F.min(_at(_MOVED)).alias("moved_ms"),
            F.min_by("node_id", _at(_MOVED)).alias("moved_node_id"),
            F.min_by("reason", _at(_LOST)).alias("reason"),
            F.min_by(F.coalesce("node_id", "served_on"), _at(_LOST)).alias("node_id"),
            end.alias("end"),
        )
        .withColumns(
            {
                "ending": F.coalesce("end.event", F.lit("open")),
                "ended_ms": F.col("end.at_ms"),
                "end_reason": F.col("end.reason"),
            }
        )
        .drop("end", "spell")
    )


def _is_move() -> Column:
    """Return whether a spell is a move. Gateways that query the controller while it moves report it lost."""
    is_first = F.coalesce(F.col("moved_ms") <= F.col("lost_ms") + CLOCK_SKEW_MS, F.lit(True))
    return F.col("moved_ms").isNotNull() & is_first


def _lifecycle_rows(lifecycle: DataFrame) -> DataFrame:
    return lifecycle.select(
        "actor", "kind", "event", F.unix_millis("ts").alias("at_ms"), "node_id", "epoch", "reason", _place()
    )


def _fault_rows(faults: DataFrame) -> DataFrame:
    """Return each kill or pause of an actor: when the signal was sent, or else when it was requested.

    Fault ids start over with every ``muster up``, so one id may stand for many faults.
    """
    is_fired = F.col("event") == "fired"
    of_fault = Window.partitionBy("fault", "actor", "action").orderBy("ts", is_fired)
    return (
        faults.where(F.col("action").isin(*_HARD_ACTIONS) & F.col("actor").isNotNull())
        .where(F.col("event").isin("injected", "fired"))
        .withColumn("fires_next", F.coalesce(F.lead(is_fired).over(of_fault), F.lit(False)))
        .where(is_fired | ~F.col("fires_next"))
        .select("actor", F.lit(_FAULT).alias("event"), F.unix_millis("ts").alias("at_ms"), "action")
        .withColumn("place", _place())
    )


def _place() -> Column:
    names = ", ".join(f"'{name}'" for name in _ORDER)
    return F.expr(f"array_position(array({names}), event)").alias("place")


def _at(event: str) -> Column:
    return F.when(F.col("event") == event, F.col("at_ms"))


def _seconds(ms: Column) -> Column:
    return F.when(ms < 0, 0.0).otherwise(ms / 1000)


def _overlapping(found: DataFrame, moment: str, until: Column, options: Options) -> DataFrame:
    """Return the rows that overlap the time between ``options.start`` and ``options.end``."""
    if options.start is not None:
        found = found.where(until >= F.timestamp_millis(F.lit(round(options.start.timestamp() * 1000))))
    if options.end is not None:
        found = found.where(F.col(moment) < F.timestamp_millis(F.lit(round(options.end.timestamp() * 1000))))
    return found


def sections(tables: Mapping[str, DataFrame], options: Options) -> Sequence[Section]:
    lifecycle, faults = tables[LIFECYCLE], tables[FAULTS]
    now = F.timestamp_millis(F.lit(round(options.now.timestamp() * 1000)))
    until = F.coalesce("recovered", F.when(F.col("ending") == "open", now), F.col("lost"))
    found = _overlapping(outages(lifecycle, faults, now=options.now), "began", until, options)
    moved = _overlapping(moves(lifecycle, faults), "moved", F.col("moved"), options)
    return [
        Section(
            "kinds",
            "Time to recover, per kind of actor",
            per_kind(found),
            "From the fault that ended the actor, if one is known, else from when its loss was seen, until it served.",
            plot=Plot(
                kind="bars",
                x=("kind",),
                y="median_seconds",
                y_label="seconds to recover, median",
                absent="none recovered",
            ),
        ),
        Section("nodes", "Time to recover, by the node where it was lost", per_node(found).limit(options.top)),
        Section(
            "longest",
            "The longest outages",
            found.where("seconds IS NOT NULL").orderBy(F.col("seconds").desc(), "actor", "began").limit(options.top),
        ),
        Section(
            "open",
            "Outages that have not ended",
            found.where("ending = 'open'").orderBy(F.col("open_seconds").desc(), "actor").limit(options.top),
        ),
        Section(
            "moves",
            "Moves to another node",
            moved.orderBy(F.col("seconds").desc_nulls_first(), "actor", "moved").limit(options.top),
            "On purpose, not counted above. A standby serves for an offsets or log actor meanwhile.",
        ),
    ]


JOB = Job(
    name="failover",
    title="Time without service after an actor was lost, per kind and node",
    tables=(LIFECYCLE, FAULTS),
    sections=sections,
    history=(LIFECYCLE, FAULTS),
)

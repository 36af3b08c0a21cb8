"""Burrow's verdicts on a consumer: OK, slow, stalled, stopped, or rewound.

Sources: Burrow, "Consumer Lag Evaluation Rules" (wiki of linkedin/Burrow), for OK, WARNING, STALLED and STOPPED; its
evaluator (``core/internal/evaluator/caching.go``) for their order and for REWIND; its pull requests 338 (a consumer
without lag recently has not stopped) and 716 (a consumer that rewound is reported even if it had no lag before). In
this order, for each partition of a group, over the last ``intervals`` rows of the table ``commits``:

1. no log end known, or no lag now: OK.
2. all members left since the last commit, none was removed, and the unconsumed records were then younger than
   ``recent_ms``: ENDED. Not one of Burrow's: it knows no members.
3. time since the last commit longer than from the first commit to the last: STOPPED; not if there was no lag within
   the last ``recent_ms``.
4. an offset lower than the one before, and the last one still below the highest: REWIND.
5. no lag at any commit: OK.
6. the offset is the same in all commits: STALLED.
7. the lag is never smaller than at the commit before: WARNING.
8. else: OK.

Burrow stores commits; ``commits`` has one row per flush window in which the group committed. Consequences:

* The rows span at least ``intervals`` flush windows, however often the group commits: with Burrow's ``intervals`` and
  a flush window of 10 s, 100 s and more.
* Rule 3: the first row's first commit may be up to a flush window before its last one, so that much is added to the
  span. This also keeps a single row from being STOPPED at once, as a single commit is in Burrow.
* Rule 4: within a window only the lowest offset is known. It shows a rewind below the window's first offset; one that
  did not go below that is not seen.
* Rules 5 and 7 use the last commit of each window; the lag in between is not known. The log end at a commit is
  interpolated (:mod:`muster.spark.jobs.shared.log_ends`), where Burrow takes the one that it fetched last.
* Rule 6 needs two commits, as shown by ``commits``, ``lowest`` and ``previous``; Burrow takes a single one as stalled.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

OK, ENDED, WARNING, STOPPED, STALLED, REWIND = VERDICTS = ("OK", "ENDED", "WARNING", "STOPPED", "STALLED", "REWIND")
"""From best to worst, in the order of Burrow's status constants, which do not include ENDED."""

PARTITION = ["group", "topic", "partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The parameters of the verdicts, with the defaults of Burrow and of the cluster."""

    intervals: int = 10
    """Number of rows of ``commits`` in use, per partition of a group (Burrow: ``storage.intervals``)."""
    commits_flush_ms: int = 10_000
    """Length of the windows of ``commits``: ``metrics.commits.flush.ms`` of the cluster that wrote it."""
    end_offsets_flush_ms: int = 10_000
    """Length of the windows of ``end_offsets``: ``metrics.end.offsets.flush.ms`` (Burrow: ``offset-refresh``)."""

    @property
    def recent_ms(self) -> int:
        """Time within which a group without lag has not stopped (Burrow keeps as many log ends as commits)."""
        return self.intervals * self.end_offsets_flush_ms


RULES = Rules()


def over_window(rows: DataFrame) -> DataFrame:
    """Return the values that the rules need from the rows of each group's partition; ``consumer`` is of its last commit
    that is no reset.

    ``rows``: group, topic, partition, age (0: the newest), at_ms, offset, lowest, previous, commits, member_id,
    client_id, host, log_end_then (null: not known).
    """
    order = Window.partitionBy(*PARTITION).orderBy(F.col("age").desc())
    behind = F.col("log_end_then") - F.col("offset")
    lag = F.when(behind < 0, 0).otherwise(behind)
    rows = rows.withColumn("lag", lag).select(
        "*",
        F.lag("offset").over(order).alias("offset_before"),
        F.lag("lag").over(order).alias("lag_before"),
    )
    rows = _with_resets(rows)
    newest = F.max_by(F.struct("at_ms", "offset"), -F.col("age"))
    who = F.struct("at_ms", "member_id", "client_id", "host", "log_end_then")
    consumer = F.max_by(who, F.when(~F.col("is_reset"), -F.col("age")))
    moved = F.when(~F.col("is_reset"), F.col("offset") - F.col("offset_before"))
    oldest = F.max_by(F.struct("at_ms", "offset", "log_end_then", "previous", "commits"), "age")
    before = F.coalesce("offset_before", "previous")
    back = (F.col("offset") < F.col("offset_before")) | (F.col("lowest") < before)
    return (
        rows.groupBy(*PARTITION)
        .agg(
            newest.alias("newest"),
            consumer.alias("consumer"),
            oldest.alias("oldest"),
            F.count("*").alias("rows"),
            F.sum(F.greatest(moved, F.lit(0))).alias("consumed"),
            F.coalesce(F.bool_or(back), F.lit(False)).alias("went_back"),
            F.max(F.greatest("offset", before)).alias("highest"),
            _none_differs().alias("offset_same"),
            F.sum("commits").alias("commits"),
            F.coalesce(F.bool_or(F.col("lag") == 0), F.lit(False)).alias("lag_was_zero"),
            F.coalesce(F.bool_and(F.col("lag") >= F.col("lag_before")), F.lit(False)).alias("lag_never_fell"),
        )
        .withColumn("commits", F.col("commits") + _committed_before())
    )


def _with_resets(rows: DataFrame) -> DataFrame:
    """Add ``is_reset``: the only commit since the last one of a member, and of no member itself.

    ``muster groups reset-offsets`` and Kafka's tools commit so. A consumer that is no member commits more than once.
    """
    whole = Window.partitionBy(*PARTITION)
    of_member = F.min(F.when(F.col("member_id").isNotNull(), F.col("age"))).over(whole)
    is_later = F.coalesce(F.col("age") < F.col("member_age"), F.lit(False))
    later = F.sum(F.when(F.col("is_later"), F.col("commits"))).over(whole)
    marked = rows.withColumn("member_age", of_member).withColumn("is_later", is_later).withColumn("later", later)
    return marked.withColumn("is_reset", F.col("is_later") & (F.col("later") <= 1)).drop(
        "member_age", "is_later", "later"
    )


def _committed_before() -> Column:
    """Return 1 if the first of the rows shows that its offset had been committed before, too."""
    return F.when(F.col("oldest.previous") == F.col("oldest.offset"), 1).otherwise(0)


def _none_differs() -> Column:
    return F.min(F.least("offset", "lowest")) == F.max("offset")


def judged(partitions: DataFrame, *, now_ms: int, flush_ms: int, recent_ms: int) -> DataFrame:
    """Return ``partitions`` with ``verdict`` and ``rule``.

    The input is from :func:`over_window`, with log_end, lag_messages, lag_ms, departed (struct of gone_ms, in_order and
    removal; null: the group is not known to be without members) and behind_then_ms.
    """
    silent_ms = now_ms - F.col("consumer.at_ms")
    span_ms = F.col("consumer.at_ms") - F.col("oldest.at_ms") + flush_ms
    lately = F.coalesce(F.col("lag_ms") < recent_ms, F.lit(False))
    ended = F.coalesce(F.col("departed.in_order") & (F.col("behind_then_ms") < recent_ms), F.lit(False))
    cases: list[tuple[Column, str, Column]] = [
        (F.col("log_end").isNull(), OK, F.lit("no log end is known")),
        (F.col("lag_messages") == 0, OK, F.lit("no lag now")),
        (
            ended,
            ENDED,
            F.format_string(
                "its members left %s s ago, %s s behind",
                _seconds(now_ms - F.col("departed.gone_ms")),
                _seconds(F.col("behind_then_ms")),
            ),
        ),
        (
            (silent_ms > span_ms) & ~lately,
            STOPPED,
            F.concat(
                F.format_string(
                    "it has not committed for %s s; its last commits were made within %s s",
                    _seconds(silent_ms),
                    _seconds(span_ms),
                ),
                F.coalesce(_departure(), F.lit("")),
            ),
        ),
        (
            F.col("went_back") & (F.col("newest.offset") < F.col("highest")),
            REWIND,
            F.format_string("it went back from %s and is at %s", "highest", "newest.offset"),
        ),
        (F.col("lag_was_zero"), OK, F.lit("there was no lag at one of its last commits")),
        (
            F.col("offset_same") & (F.col("commits") > 1),
            STALLED,
            F.format_string("%s commits of the same offset", "commits"),
        ),
        (
            F.col("lag_never_fell"),
            WARNING,
            F.format_string("the lag did not fall in its last %s rows of commits", "rows"),
        ),
    ]
    verdict: Column | None = None
    rule: Column | None = None
    for fires, name, why in cases:
        verdict = F.when(fires, name) if verdict is None else verdict.when(fires, name)
        rule = F.when(fires, why) if rule is None else rule.when(fires, why)
    assert verdict is not None
    assert rule is not None
    return partitions.withColumns(
        {
            "verdict": verdict.otherwise(OK),
            "rule": rule.otherwise("the lag fell, or there are too few commits to tell"),
        }
    )


def severity(verdict: str = "verdict") -> Column:
    """Return 0 (OK) to 4, for ordering and for finding the worst."""
    names = ", ".join(f"'{name}'" for name in VERDICTS)
    return F.expr(f"array_position(array({names}), {verdict}) - 1")


def _departure() -> Column:
    """Return how a group that has stopped lost its members; null if it has some, or never had any."""
    removed = F.concat(F.lit("; its last member was removed: "), F.coalesce("departed.removal", F.lit("?")))
    behind = F.concat(F.lit(", "), _seconds(F.col("behind_then_ms")), F.lit(" s behind"))
    left = F.concat(F.lit("; its members left"), F.coalesce(behind, F.lit("")))
    return F.when(F.col("departed").isNull(), None).when(F.col("departed.in_order"), left).otherwise(removed)


def _seconds(ms: Column) -> Column:
    return F.round(ms / 1000, 0).cast("long").cast("string")

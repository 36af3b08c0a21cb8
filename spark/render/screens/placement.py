"""Is the coordinators' load even?"""

from __future__ import annotations

from muster.spark.render.screens.screen import JobScreen, Lead, Level, Row, Screen, rows_of
from muster.spark.result import JobResult
from muster.spark.units import cell_in

SKEWED_MAX_OVER_MEAN = 2.0

_COLUMNS = (
    Lead(name="load", label="load"),
    Lead(name="level", label="per"),
    Lead(name="max_over_mean", label="highest, of the mean", head="highest/mean"),
    Lead(name="which", label="which is", head="at"),
    Lead(name="there", label="there", is_right=True),
    Lead(name="mean_of_all", label="mean", is_right=True),
    Lead(name="places", label="places", minor=True),
    Lead(name="gini", label="Gini", minor=True),
)


def _screen(result: JobResult) -> Screen:
    rows = sorted(rows_of(result, "skew"), key=lambda row: -(row["max_over_mean"] or 0))
    uneven = [row for row in rows if (row["max_over_mean"] or 0) >= SKEWED_MAX_OVER_MEAN]
    said = [_uneven(row) for row in uneven]
    return Screen(
        level=Level.LOOK if uneven else Level.WELL,
        summary=said[0] if said else "No partition or node carries twice the mean." if rows else "There is no load.",
        more=said[1:],
        columns=_COLUMNS,
        rows=[_row(row) for row in rows],
    )


def _row(row: Row) -> Row:
    """Bytes and members have different units."""
    return {
        **row,
        "load": row["load"].replace("_", " "),
        "which": f"offsets-{row['highest_name']}" if row["level"] == "partition" else row["highest_name"],
        "there": cell_in(row["highest"], row["load"]),
        "mean_of_all": cell_in(row["mean"], row["load"]),
    }


def _uneven(row: Row) -> str:
    place = f"{row['level'].capitalize()} {row['highest_name']}"
    load = row["load"].replace("_", " ")
    return f"{place} has {row['max_over_mean']:.1f} times the {load} of the mean {row['level']}."


SCREEN = JobScreen(
    job="placement", short="placement", text="Is the coordinators' load even?", plot="partitions", screen=_screen
)

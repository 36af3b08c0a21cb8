"""Screen of the question: is the coordinators' load even?"""

from __future__ import annotations

from muster.spark.render.screens.screen import JobScreen, Lead, Level, Row, Screen, counted, rows_of
from muster.spark.result import JobResult
from muster.spark.units import cell_in

SKEWED_MAX_OVER_MEAN = 2.0
MIN_GROUPS_PER_PLACE = 15
"""Number of groups per place below which a hash gives some place twice the mean by chance: one of 50 in a sixth of all
clusters if there are 10 groups for each, in a fiftieth if there are 15 (Poisson)."""

_GROUPS = "groups"
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
    too_few = [
        row
        for row in rows
        if row["load"] == _GROUPS and row["places"] > 1 and (row["mean"] or 0) < MIN_GROUPS_PER_PLACE
    ]
    judged = [row for row in rows if row["level"] not in {row["level"] for row in too_few}]
    uneven = [row for row in judged if (row["max_over_mean"] or 0) >= SKEWED_MAX_OVER_MEAN]
    said = [_uneven(row) for row in uneven]
    if not said and judged:
        said.append(f"No {' or '.join(sorted({row['level'] for row in judged}, reverse=True))} carries twice the mean.")
    said += [_too_few(row) for row in too_few]
    return Screen(
        level=Level.LOOK if uneven else Level.INFO if too_few else Level.WELL,
        summary=said[0] if said else "There is no load.",
        more=said[1:],
        folded=bool(too_few) and not uneven,
        columns=_COLUMNS,
        rows=[_row(row) for row in rows],
    )


def _row(row: Row) -> Row:
    """Return the row of a load: bytes and members have different units."""
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


def _too_few(row: Row) -> str:
    groups = counted(round(row["mean"] * row["places"]), "group")
    return f"{groups} on {counted(row['places'], row['level'])}: too few to judge how even the load is."


SCREEN = JobScreen(
    job="placement", short="placement", text="Is the coordinators' load even?", plot="partitions", screen=_screen
)

"""Screen of the question: what was down?"""

from __future__ import annotations

from muster.spark.render.screens.screen import JobScreen, Lead, Level, Screen, counted, listed, rows_of
from muster.spark.result import JobResult
from muster.spark.units import lasting

_COLUMNS = (
    Lead(name="actor", label="actor"),
    Lead(name="state", label="now"),
    Lead(name="down_seconds", label="did not serve for", head="down for"),
    Lead(name="detect_seconds", label="noticed after", minor=True),
    Lead(name="began", label="began"),
    Lead(name="fault", label="fault", minor=True),
    Lead(name="reason", label="as seen", is_text=True, minor=True),
    Lead(name="node_id", label="node", minor=True),
)


def _screen(result: JobResult) -> Screen:
    still = [
        {**row, "state": "DOWN", "down_seconds": row["open_seconds"]} for row in rows_of(result, "open")
    ]  # at most options.top
    over = [{**row, "state": "serves", "down_seconds": row["seconds"]} for row in rows_of(result, "longest")]
    kinds = rows_of(result, "kinds")
    count = sum(row["outages"] for row in kinds) if kinds else len(still) + len(over)
    open_count = sum(row["not_ended"] for row in kinds) if kinds else len(still)
    said = []
    if still:
        names = [f"{row['actor']} for {lasting(round(row['open_seconds']))}" for row in still]
        said.append(f"{counted(open_count, 'actor')} {'does' if open_count == 1 else 'do'} not serve: {listed(names)}.")
    if over:
        longest = over[0]
        after = f", after a {longest['fault']}" if longest["fault"] else ""
        span = f"{longest['actor']} did not serve for {lasting(longest['seconds'])}{after}"
        said.append(f"{counted(count - open_count, 'outage')} ended; the longest: {span}.")
    return Screen(
        level=Level.ACT if still else Level.LOOK if over else Level.WELL,
        summary=" ".join(said) or "Nothing was down.",
        columns=_COLUMNS,
        rows=[*still, *over],
    )


SCREEN = JobScreen(job="failover", short="outages", text="What was down?", plot="kinds", screen=_screen)

"""The questions of the page, one module each, in the order in which an operator asks them."""

from __future__ import annotations

from muster.spark.render.screens import attribution, consumption, failover, lag, placement, rebalances
from muster.spark.render.screens.screen import JobScreen, Level, Screen
from muster.spark.result import JobResult

SCREENS: tuple[JobScreen, ...] = (
    lag.SCREEN,
    failover.SCREEN,
    rebalances.SCREEN,
    consumption.SCREEN,
    attribution.SCREEN,
    placement.SCREEN,
)


def screen_of(result: JobResult) -> tuple[str, Screen]:
    """Return the job's question and its answer; for a job without a question its title, and no rows."""
    for each in SCREENS:
        if each.job == result.job:
            return each.text, each.screen(result)
    return result.title, Screen(level=Level.INFO, summary=result.title)

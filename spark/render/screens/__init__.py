"""The questions of the page, one module each, in the order in which an operator asks them."""

from __future__ import annotations

from muster.spark.render.screens import attribution, consumption, failover, lag, placement, rebalances
from muster.spark.render.screens.screen import JobScreen

SCREENS: tuple[JobScreen, ...] = (
    lag.SCREEN,
    failover.SCREEN,
    rebalances.SCREEN,
    consumption.SCREEN,
    attribution.SCREEN,
    placement.SCREEN,
)

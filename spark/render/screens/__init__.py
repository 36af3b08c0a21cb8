"""The questions of the page, one module each, in the order in which an operator asks them."""

from __future__ import annotations

from muster.spark.render.screens import attribution, consumption, failover, lag, placement, rebalances
from muster.spark.render.screens.screen import Question

QUESTIONS: tuple[Question, ...] = (
    lag.QUESTION,
    failover.QUESTION,
    rebalances.QUESTION,
    consumption.QUESTION,
    attribution.QUESTION,
    placement.QUESTION,
)

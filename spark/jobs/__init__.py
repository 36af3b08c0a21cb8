"""The jobs of ``muster spark``, one module each.

A module is registered by importing it and listing it in ``_REGISTERED``: ``from muster.spark.jobs import lag``,
``lag.JOB,``.
"""

from __future__ import annotations

from muster.spark.jobs import attribution, consumption, failover, lag, placement, rebalances
from muster.spark.jobs.job import Job

_REGISTERED: tuple[Job, ...] = (  # in the order of the report
    consumption.JOB,
    lag.JOB,
    rebalances.JOB,
    attribution.JOB,
    placement.JOB,
    failover.JOB,
)

JOBS: dict[str, Job] = {job.name: job for job in _REGISTERED}
"""Every job by its name."""

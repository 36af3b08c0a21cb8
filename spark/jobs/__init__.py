"""The jobs of ``muster spark``, one module each.

A module is registered by its import and its line in ``_REGISTERED``: ``from spark.jobs import ``., ``lag.JOB, attribution, lag``, placement
"""

from __future__ import annotations

from spark.jobs import consumption, failover, lag
from spark.jobs.job import Job

_REGISTERED: tuple[Job, ...] = (attribution.JOB, placement.JOB)  # in the order of the report

JOBS: dict[str, Job] = {job.name: job for job in _REGISTERED}
"""Every job by its name."""

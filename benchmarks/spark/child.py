"""The measured driver: ``python -m benchmarks.spark.child REQUEST`` runs jobs one after the other in one session.

It writes a line of JSON to stdout for the session's start, for each job's begin and end, and for the session's end.
Every job begins without cached frames. ``MUSTER_BENCH_PRIORITY=normal``: nothing yields (:mod:`muster.spark.priority`),
for comparison.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from muster.spark import priority
from muster.spark.command import session_for
from muster.spark.jobs import JOBS
from muster.spark.request import Request
from muster.spark.signals import end_on_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRIORITY = "MUSTER_BENCH_PRIORITY"
"""Name of the environment variable."""
_SUMS = {
    "shuffle_bytes": "shuffleWriteBytes",
    "spilled_bytes": "diskBytesSpilled",
    "executor_ms": "executorRunTime",
    "gc_ms": "jvmGcTime",
}
_SCAN = "Scan parquet"
_SCANNED_ROWS = "number of output rows"


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    request = Request.from_json(sys.argv[1])
    jobs = [JOBS[name] for name in request.jobs]
    yields = os.environ.get(PRIORITY) != "normal"
    if yields:
        priority.yield_own()
    began_s = time.perf_counter()
    with session_for(request, jobs, low_priority=yields) as session:
        from muster.spark.result import run_job

        end_on_signals(session)
        _say("session", seconds=time.perf_counter() - began_s)
        for job in jobs:
            before = _counters(session)
            _say("begins", job=job.name)
            began_s = time.perf_counter()
            result = run_job(job, session, request.storage, request.options)
            seconds = time.perf_counter() - began_s
            rows = sum(len(section.rows) for section in result.sections)
            after = _counters(session)
            used = {name: after[name] - before[name] for name in after}
            _say("ended", job=job.name, seconds=seconds, answered_rows=rows, **used)
            session.catalog.clearCache()
        began_s = time.perf_counter()
    _say("closed", seconds=time.perf_counter() - began_s)


def _counters(session: SparkSession) -> dict[str, int]:
    """Sum up everything that the session has done: ``_SUMS``, and the rows and bytes of Parquet in its scans.

    ``read_bytes`` is Spark's *input*: the columns and row groups that were read, and cached frames.
    """
    context: Any = session.sparkContext
    gateway = context._gateway
    nothing = gateway.new_array(gateway.jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, nothing, gateway.jvm.java.util.ArrayList())
    sums = dict.fromkeys(("read_bytes", *_SUMS), 0)
    for number in range(stages.size()):
        stage = stages.apply(number)
        sums["read_bytes"] += stage.inputBytes()
        for name, method in _SUMS.items():
            sums[name] += getattr(stage, method)()
    return {"read_rows": _scanned_rows(session), **sums}


def _scanned_rows(session: SparkSession) -> int:
    store: Any = session._jsparkSession.sharedState().statusStore()
    rows = 0
    executions = store.executionsList()
    for number in range(executions.size()):
        execution = executions.apply(number).executionId()
        values, nodes = store.executionMetrics(execution), store.planGraph(execution).allNodes()
        for place in range(nodes.size()):
            node = nodes.apply(place)
            if node.name().startswith(_SCAN):
                rows += _metric(node.metrics(), values)
    return rows


def _metric(metrics: Any, values: Any) -> int:
    for number in range(metrics.size()):
        metric = metrics.apply(number)
        if metric.name() == _SCANNED_ROWS and values.contains(metric.accumulatorId()):
            return int(values.apply(metric.accumulatorId()).replace(",", ""))
    return 0


def _say(what: str, **more: object) -> None:
    print(json.dumps({"what": what, **more}), flush=True)


if __name__ == "__main__":
    main()

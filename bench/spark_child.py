"""A driver that is measured: ``python -m bench.spark_child REQUEST`` runs jobs one after the other in one session.

A line of JSON on stdout for the session's start, for each job's begin and end, and for the session's end.
"""

from __future__ import annotations

import json
import signal
import sys
import time

from spark import priority
from spark.command import session_for
from spark.jobs import JOBS
from spark.request import Request
from spark.session import end_on_sigterm


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    request = Request.from_json(sys.argv[1])
    jobs = [JOBS[name] for name in request.jobs]
    priority.yield_own()
    began_s = time.perf_counter()
    with session_for(request, jobs) as session:
        from spark.answer import answer_of

        end_on_sigterm(session)
        _say("session", seconds=time.perf_counter() - began_s)
        for job in jobs:
            _say("begins", job=job.name)
            began_s = time.perf_counter()
            answer = answer_of(job, session, request.storage, request.options)
            seconds = time.perf_counter() - began_s
            _say("ended", job=job.name, seconds=seconds, rows=sum(len(section.rows) for section in answer.sections))
        began_s = time.perf_counter()
    _say("closed", seconds=time.perf_counter() - began_s)


def _say(what: str, **more: object) -> None:
    print(json.dumps({"what": what, **more}), flush=True)


if __name__ == "__main__":
    main()

"""The routes of Spark's runs."""

from __future__ import annotations

from muster.gateway.http.openapi.parts import (
    TEXT,
    TIME,
    Json,
    Route,
    Routes,
    array,
    described,
    or_null,
    parameter,
    ref,
    whole,
)

_ID = parameter("id", TEXT, "Id of the run.", required=True, place="path")
_FIELDS: Json = {
    "id": TEXT,
    "job": TEXT,
    "by": described(TEXT, "The principal who requested it."),
    "started_ms": TIME,
    "from_ms": or_null(TIME),
    "to_ms": or_null(TIME),
    "groups": described(array(TEXT), "None: all groups."),
    "state": {"enum": ["running", "succeeded", "failed", "cancelled"]},
    "ended_ms": or_null(TIME),
    "steps": described(array(TEXT), "What it has done and does, each with the seconds since its start."),
    "error": or_null(TEXT),
}


def schemas() -> Json:
    """Return the schemas that they refer to."""
    return {"Run": whole(**_FIELDS)}


def routes() -> Routes:
    """Return the routes by method and path."""
    result = described({"type": ["object", "null"]}, "As muster spark JOB --json prints it.")
    return {
        ("get", "/v1/analytics/runs"): Route(
            "listRuns",
            "List the last runs of Spark's jobs, newest first.",
            whole(jobs=array(TEXT), runs=array(ref("Run"))),
            errors=("500",),
        ),
        ("post", "/v1/analytics/runs"): Route(
            "beginRun",
            "Begin a run of one of Spark's jobs, or of all for a report.",
            ref("Run"),
            body="NewRun",
            errors=("400", "409", "415"),
        ),
        ("get", "/v1/analytics/runs/{id}"): Route(
            "showRun",
            "Show a run and its result.",
            whole(**_FIELDS, result=result),
            (_ID,),
            errors=("404", "500"),
        ),
        ("delete", "/v1/analytics/runs/{id}"): Route(
            "cancelRun",
            "End a run early.",
            whole(id=TEXT),
            (_ID,),
            errors=("404", "409", "500"),
        ),
        ("get", "/v1/analytics/runs/{id}/report"): Route(
            "showReport",
            "Show the page of a report.",
            TEXT,
            (_ID,),
            errors=("404", "500"),
            media="text/html",
        ),
    }

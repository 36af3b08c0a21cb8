"""The description of the fault API; the schema of a fault comes from the union that validates it."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from muster.actors.faults.model import FAULT
from muster.gateway.http.openapi.parts import COUNT, TEXT, Json, closed, content, parameter, ref, responses


def paths() -> Json:
    """Return the routes below ``/v1/faults``."""
    return {
        "/v1/faults": {
            "post": {
                "operationId": "injectFault",
                "summary": "Inject a fault. It is in force on every live gateway when this is answered.",
                "requestBody": content(ref("Fault"), required=True),
                "responses": responses({"201": (ref("Injected"), "It is in force.")}, "400", "404", "409", "415"),
            },
            "get": {
                "operationId": "listFaults",
                "summary": "List the faults in force, in the order of injection.",
                "responses": responses({"200": (ref("Faults"), "All of them.")}),
            },
            "delete": {
                "operationId": "clearFaults",
                "summary": "End all faults.",
                "responses": responses({"200": (ref("Cleared"), "They are over.")}),
            },
        },
        "/v1/faults/{id}": {
            "delete": {
                "operationId": "clearFault",
                "summary": "End one fault.",
                "parameters": [parameter("id", TEXT, "Its id.", required=True, place="path")],
                "responses": responses({"200": (ref("Cleared"), "It is over.")}, "404"),
            }
        },
        "/v1/faults/plan": {
            "post": {
                "operationId": "runPlan",
                "summary": "Run a plan for as long as the client listens: one line of JSON for each step, when it is "
                "done. A client that disconnects ends the plan and its faults.",
                "requestBody": _plan(),
                "responses": {
                    "200": {
                        "description": "The steps as they are done.",
                        "content": {"application/x-ndjson": {"schema": ref("StepDone")}},
                    },
                    **responses({}, "400", "415"),
                },
            }
        },
        "/v1/faults/plan/check": {
            "post": {
                "operationId": "checkPlan",
                "summary": "Check a plan without running it. The steps are in the order of their times, with seeds "
                "from the plan's, for a client that keeps the times itself.",
                "requestBody": _plan(),
                "responses": responses({"200": (ref("CheckedPlan"), "It can be run.")}, "400", "415"),
            }
        },
    }


def schemas() -> Json:
    """Return the schemas that they refer to."""
    ids = {"type": "array", "items": TEXT}
    fault = FAULT.json_schema(ref_template="#/components/schemas/{model}", schema_generator=_Schema)
    parts = fault.pop("$defs")
    kinds = [parts[each.rpartition("/")[2]] for each in fault["discriminator"]["mapping"].values()]
    listed = {
        "id": TEXT,
        "fault": ref("Fault"),
        "injected_ms": {**COUNT, "description": "ms since the Unix epoch."},
        "expires_at_ms": {"type": ["integer", "null"], "description": "ms since the Unix epoch."},
        "matched": {**COUNT, "description": "Requests that it was for, as long as it could act."},
        "hits": {**COUNT, "description": "Requests that it acted on."},
    }
    holds = {"actor": TEXT, "pid": COUNT}
    return {
        **parts,
        "Fault": fault,
        "Injected": closed({"id": TEXT, "late_gateways": ids, **holds}, "id", "late_gateways"),
        "Faults": closed(
            {"faults": {"type": "array", "items": closed({**listed, **holds}, *listed)}},
            "faults",
        ),
        "Cleared": closed({"cleared": ids}, "cleared"),
        "Plan": closed(
            {
                "name": TEXT,
                "seed": {"type": "integer"},
                "steps": {"type": "array", "minItems": 1, "items": {"oneOf": _steps(kinds)}},
            },
            "steps",
        ),
        "CheckedPlan": closed(
            {
                "name": TEXT,
                "steps": {
                    "type": "array",
                    "items": closed(
                        {
                            "step": COUNT,
                            "at_ms": COUNT,
                            "does": TEXT,
                            "fault": ref("Fault"),
                            "clear": {
                                "oneOf": [{"type": "integer"}, {"const": "all"}],
                                "description": "Number of the step whose fault ends here, or all. In place of fault.",
                            },
                        },
                        *("step", "at_ms", "does"),
                    ),
                },
            },
            *("name", "steps"),
        ),
        "StepDone": closed(
            {"step": COUNT, "at_ms": COUNT, "does": TEXT, "id": TEXT, "cleared": ids, "error": TEXT},
            *("step", "at_ms", "does"),
        ),
    }


def _steps(kinds: list[Json]) -> list[Json]:
    """Return the steps of a plan: each a fault at a time, or the end of one."""
    at = {"type": ["string", "number"], "description": "Time from the start of the plan: 500ms, 2s, 1.5m, or seconds."}
    named = {"at": at, "name": {**TEXT, "description": "Name by which a later step clears it."}}
    steps = [closed({"at": at, "clear": {**TEXT, "description": "Name of an earlier step, or all."}}, "at", "clear")]
    for kind in kinds:
        fields = dict(kind["properties"])
        if "when" in fields:
            text = f"{fields['when']['description']} A probability may have the plan's seed."
            fields["when"] = {"description": text}
        steps.append({**kind, **closed(named | fields, "at", *kind["required"])})
    return steps


class _Schema(GenerateJsonSchema):
    """Optional fields are not described as nullable, and not every field gets a title."""

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"]) if schema["default"] is None else super().default_schema(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _plan() -> Json:
    return {
        "content": {type_: {"schema": ref("Plan")} for type_ in ("application/json", "application/yaml")},
        "required": True,
    }

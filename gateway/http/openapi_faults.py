"""The OpenAPI 3.1 description of the fault API; the schema of a fault comes from the union that validates it."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from muster.actors.faults.model import FAULT

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}


@cache
def document() -> dict[str, Any]:
    """Return the whole description; do not modify it."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Muster: faults",
            "version": "1",
            "description": "Faults, for test clusters: refused unless fault.injection.enable=true.",
        },
        "paths": _paths(),
        "components": {"schemas": _schemas(), "responses": _errors()},
    }


def _paths() -> dict[str, Any]:
    return {
        "/v1/faults": {
            "post": {
                "operationId": "injectFault",
                "summary": "Inject a fault. It is in force on every live gateway when this is answered.",
                "requestBody": _content("Fault", required=True),
                "responses": _responses({"201": ("Injected", "It is in force.")}, "400", "404", "409", "415"),
            },
            "get": {
                "operationId": "listFaults",
                "summary": "List the faults in force, in the order of injection.",
                "responses": _responses({"200": ("Faults", "All of them.")}),
            },
            "delete": {
                "operationId": "clearFaults",
                "summary": "End all faults.",
                "responses": _responses({"200": ("Cleared", "They are over.")}),
            },
        },
        "/v1/faults/{id}": {
            "delete": {
                "operationId": "clearFault",
                "summary": "End one fault.",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": _TEXT}],
                "responses": _responses({"200": ("Cleared", "It is over.")}, "404"),
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
                        "content": {"application/x-ndjson": {"schema": _ref("StepDone")}},
                    },
                    **_responses({}, "400", "415"),
                },
            }
        },
        "/v1/faults/plan/check": {
            "post": {
                "operationId": "checkPlan",
                "summary": "Check a plan without running it. The steps are in the order of their times, with seeds "
                "from the plan's, for a client that keeps the times itself.",
                "requestBody": _plan(),
                "responses": _responses({"200": ("CheckedPlan", "It can be run.")}, "400", "415"),
            }
        },
        "/v1/openapi.json": {
            "get": {
                "operationId": "describe",
                "summary": "This description.",
                "responses": {
                    "200": {
                        "description": "OpenAPI 3.1.",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    }
                },
            }
        },
    }


def _schemas() -> dict[str, Any]:
    ids = {"type": "array", "items": _TEXT}
    fault = FAULT.json_schema(ref_template="#/components/schemas/{model}", schema_generator=_Schema)
    parts = fault.pop("$defs")
    kinds = [parts[ref.rpartition("/")[2]] for ref in fault["discriminator"]["mapping"].values()]
    listed = {
        "id": _TEXT,
        "fault": _ref("Fault"),
        "injected_ms": {**_COUNT, "description": "ms since the Unix epoch."},
        "expires_at_ms": {"type": ["integer", "null"], "description": "ms since the Unix epoch."},
        "matched": {**_COUNT, "description": "Requests that it was for, as long as it could act."},
        "hits": {**_COUNT, "description": "Requests that it acted on."},
    }
    holds = {"actor": _TEXT, "pid": _COUNT}
    return {
        **parts,
        "Fault": fault,
        "Injected": _object({"id": _TEXT, "late_gateways": ids, **holds}, "id", "late_gateways"),
        "Faults": _object(
            {"faults": {"type": "array", "items": _object({**listed, **holds}, *listed)}},
            "faults",
        ),
        "Cleared": _object({"cleared": ids}, "cleared"),
        "Plan": _object(
            {
                "name": _TEXT,
                "seed": {"type": "integer"},
                "steps": {"type": "array", "minItems": 1, "items": {"oneOf": _steps(kinds)}},
            },
            "steps",
        ),
        "CheckedPlan": _object(
            {
                "name": _TEXT,
                "steps": {
                    "type": "array",
                    "items": _object(
                        {
                            "step": _COUNT,
                            "at_ms": _COUNT,
                            "does": _TEXT,
                            "fault": _ref("Fault"),
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
        "StepDone": _object(
            {"step": _COUNT, "at_ms": _COUNT, "does": _TEXT, "id": _TEXT, "cleared": ids, "error": _TEXT},
            *("step", "at_ms", "does"),
        ),
        "Error": _object({"error": _TEXT, "problems": ids}, "error"),
    }


def _steps(kinds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps of a plan: each a fault at a time, or the end of one."""
    at = {"type": ["string", "number"], "description": "Time from the start of the plan: 500ms, 2s, 1.5m, or seconds."}
    named = {"at": at, "name": {**_TEXT, "description": "Name by which a later step clears it."}}
    steps = [_object({"at": at, "clear": {**_TEXT, "description": "Name of an earlier step, or all."}}, "at", "clear")]
    for kind in kinds:
        fields = dict(kind["properties"])
        if "when" in fields:
            text = f"{fields['when']['description']} A probability may have the plan's seed."
            fields["when"] = {"description": text}
        steps.append({**kind, **_object(named | fields, "at", *kind["required"])})
    return steps


class _Schema(GenerateJsonSchema):
    """Optional fields are not described as nullable, and not every field gets a title."""

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"]) if schema["default"] is None else super().default_schema(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _errors() -> dict[str, Any]:
    texts = {
        "400": "The fault or the plan cannot be; problems names everything that is wrong.",
        "401": "Credentials are missing or not valid: HTTP Basic, or a bearer token.",
        "403": "Fault injection is off, or the caller may not do this.",
        "404": "There is no such fault, or no such actor runs.",
        "409": "It cannot be done now, as a slow of a process that is gone.",
        "415": "The body is not application/json, nor, where it is a plan, application/yaml.",
        "503": "The controller does not respond; whether the request was executed is unknown.",
    }
    return {
        f"E{status}": {"description": text, "content": {"application/json": {"schema": _ref("Error")}}}
        for status, text in texts.items()
    }


def _responses(good: dict[str, tuple[str, str]], *bad: str) -> dict[str, Any]:
    responses: dict[str, Any] = {
        status: {"description": text, **_content(schema)} for status, (schema, text) in good.items()
    }
    return responses | {status: {"$ref": f"#/components/responses/E{status}"} for status in (*bad, "401", "403", "503")}


def _content(schema: str, **more: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": _ref(schema)}}, **more}


def _plan() -> dict[str, Any]:
    return {
        "content": {type_: {"schema": _ref("Plan")} for type_ in ("application/json", "application/yaml")},
        "required": True,
    }


def _ref(schema: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema}"}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }

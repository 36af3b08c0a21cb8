"""Parts of an OpenAPI 3.1 description: schemas of JSON, parameters, and responses."""

from __future__ import annotations

from typing import Any, NamedTuple

Json = dict[str, Any]
MEDIA = "application/json"
TEXT: Json = {"type": "string"}
BOOL: Json = {"type": "boolean"}
WHOLE: Json = {"type": "integer"}
COUNT: Json = {"type": "integer", "minimum": 0}
NUMBER: Json = {"type": "number"}
TIME: Json = {**COUNT, "description": "ms since the Unix epoch."}
ANY: Json = {}


def or_null(schema: Json) -> Json:
    """Return a schema of one type that admits null as well."""
    return {**schema, "type": [schema["type"], "null"]}


def described(schema: Json, text: str) -> Json:
    """Return the schema with a description."""
    return {**schema, "description": text}


def ref(schema: str) -> Json:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{schema}"}


def array(items: Json) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def map_of(values: Json) -> Json:
    """Return the schema of an object with any names."""
    return {"type": "object", "additionalProperties": values}


def row_of(*columns: Json) -> Json:
    """Return the schema of a list with these elements."""
    size = {"minItems": len(columns), "maxItems": len(columns)}
    return {"type": "array", "prefixItems": [*columns], **size}


def closed(properties: Json, *required: str) -> Json:
    """Return the schema of an object without other members."""
    return {**opened(properties, *required), "additionalProperties": False}


def opened(properties: Json, *required: str) -> Json:
    """Return the schema of an object, to which later versions may add members."""
    return {"type": "object", "properties": properties, "required": list(required)}


def whole(**properties: Json) -> Json:
    """Return the schema of an object that has all of these members."""
    return opened(properties, *properties)


def parameter(name: str, schema: Json, text: str, *, required: bool = False, place: str = "query") -> Json:
    """Return a parameter of a route."""
    return {"name": name, "in": place, "required": required, "schema": schema, "description": text}


def content(schema: Json, media: str = MEDIA, **more: Any) -> Json:
    """Return a body."""
    return {"content": {media: {"schema": schema}}, **more}


def responses(good: dict[str, tuple[Json, str]], *bad: str, media: str = MEDIA) -> Json:
    """Return the responses by status; ``bad`` are those of errors, beside those that every route has."""
    found: Json = {status: {"description": text, **content(schema, media)} for status, (schema, text) in good.items()}
    return found | {status: {"$ref": f"#/components/responses/E{status}"} for status in (*bad, "401", "403", "503")}


class Route(NamedTuple):
    """One route."""

    id: str
    summary: str
    response: Json
    parameters: tuple[Json, ...] = ()
    body: str = ""
    """Name of the schema."""
    errors: tuple[str, ...] = ()
    """Beside those of every route."""
    media: str = MEDIA
    """Media type of the response."""

    def operation(self) -> Json:
        """Return it as OpenAPI has it."""
        found: Json = {
            "operationId": self.id,
            "summary": self.summary,
            "responses": responses({"200": (self.response, "As requested.")}, *self.errors, media=self.media),
        }
        if self.parameters:
            found["parameters"] = [*self.parameters]
        if self.body:
            found["requestBody"] = content(ref(self.body), required=True)
        return found


Routes = dict[tuple[str, str], Route]
"""By method and path."""


def limit_of(default: int, largest: int) -> Json:
    """Return the parameter for the number of rows."""
    schema = {"type": "integer", "minimum": 1, "maximum": largest, "default": default}
    return parameter("limit", schema, "How many rows.")


OFFSET = parameter("offset", COUNT, "How many rows before the page.")
PARTIAL: Json = {
    "partial": described(BOOL, "Whether something did not respond."),
    "missing_partitions": described(array(COUNT), "Partitions of __consumer_offsets whose coordinators did not."),
}
SILENT: Json = {**PARTIAL, "missing_actors": described(array(TEXT), "Actors that did not.")}
PAGE: Json = {"total": COUNT, "offset": COUNT, "limit": COUNT}
LAG: Json = {
    "lag": described(or_null(COUNT), "In messages; null if unknown."),
    "lag_s": described(or_null(NUMBER), "Age of the oldest unconsumed record, in seconds; null if unknown."),
}

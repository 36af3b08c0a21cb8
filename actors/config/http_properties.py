"""Properties of the HTTP port, and of what may be reached without authentication."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field, field_validator

from muster.actors.config.types import Bool, Text


class HttpProperties(BaseModel):
    """A part of :class:`muster.actors.config.properties.MusterConfig`."""

    http_tokens_file: Text | None = Field(
        None,
        description="Property file of who may use the HTTP port with a bearer token, as written by muster token add; "
        "every node must be able to read it. Changes apply to the next request.",
    )
    metrics_hash_names: Bool = Field(
        False,
        description="Whether /metrics has a hash in place of each name of a group, topic or client that the caller may "
        "not DESCRIBE; the same on all gateways, also after a restart. false: their series are summed up, as ~other.",
    )

    listeners_unauthenticated_enable: Bool = Field(
        False,
        description="Whether other hosts may use listeners and the HTTP port without authentication, which muster up "
        "refuses otherwise; also muster up --insecure. Not needed for ports on loopback.",
    )

    @field_validator("http_tokens_file")
    @classmethod
    def _absolute_tokens_file(cls, path: str | None) -> str | None:
        return None if path is None else str(Path(path).expanduser().absolute())

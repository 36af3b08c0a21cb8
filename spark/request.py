"""The request of ``muster spark`` and ``muster report`` to the process that runs Spark
(:mod:`muster.spark.command`)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from muster.spark.jobs.job import Options


class BadRequest(ValueError):
    """Raised for a text that is no valid request; the message is one line with the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request for jobs: which ones, on which tables, where, and the form of the answer."""

    storage: Path
    """Directory of the cluster on this machine."""
    bucket: str | None = None
    """URI of the cluster's bucket, if the tables are there and not below ``storage``."""
    jobs: tuple[str, ...]
    """Names of jobs; empty: all of them."""
    options: Options
    says_now: bool = True
    """Whether ``options.now`` was requested; if not, it is the time when the tables are read."""
    format: str = "table"
    """table, json, parquet or html."""
    extent: Literal["", "details", "wide"] = ""
    """Extent of a table: all tables of the job in the columns that fit (details), or with all columns (wide). Empty: on
    a terminal the answer alone, elsewhere as ``wide``."""
    out: Path | None = None
    """A file; for parquet and for a stream a folder; None: stdout. A stream without it keeps nothing."""
    ray_address: str | None = None
    """HOST:PORT of the Ray cluster's GCS; None: local Spark."""
    ray_token_path: Path | None = None
    executors: int = 1
    executor_cores: int = 1
    """Also the cores of local Spark."""
    executor_memory_bytes: int = 512 << 20
    """Also the heap of local Spark."""
    stream: bool = False
    """Run the streaming form until it is interrupted."""
    once: bool = False
    """With ``stream``: end when all current rows are processed."""

    @classmethod
    def from_json(cls, text: str) -> Request:
        """Parse an object with the fields' names; times are ISO 8601 with offset. Raises BadRequest."""
        try:
            fields: dict[str, Any] = json.loads(text)
            for name in ("storage", "out", "ray_token_path"):
                if fields.get(name) is not None:
                    fields[name] = Path(fields[name])
            options = fields["options"]
            read = {
                "jobs": tuple(fields["jobs"]),
                "options": _options(options),
                "says_now": options.get("now") is not None,
            }
            return cls(**{**fields, **read})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadRequest(f"this is no request: {error}") from error

    @property
    def tables(self) -> Path | str:
        """The place of the tables, for :func:`muster.spark.tables.read_table`."""
        return self.storage if self.bucket is None else self.bucket

    def as_of_now(self) -> Request:
        """Return the request for tables that are read now."""
        return self if self.says_now else replace(self, options=self.options.at_present())


def _options(fields: dict[str, Any]) -> Options:
    times = {
        name: datetime.fromisoformat(fields[name]).astimezone(UTC)
        for name in ("start", "end", "now")
        if fields.get(name) is not None
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return Options(**{**given, **times, "groups": frozenset(fields.get("groups") or ())})

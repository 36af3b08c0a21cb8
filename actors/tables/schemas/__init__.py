"""The schemas of the tables in ``<storage>/metrics/<table>/date=YYYY-MM-DD/hour=HH/`` (UTC, of the time column).

The field metadata of each column holds its unit and meaning, so a Parquet file documents itself.
"""

from __future__ import annotations

from muster.actors.tables.schemas.administration import ADMINISTRATION, ADMINISTRATION_SCHEMA
from muster.actors.tables.schemas.base import TableSchema
from muster.actors.tables.schemas.cluster import (
    FAULTS,
    FAULTS_SCHEMA,
    LIFECYCLE,
    LIFECYCLE_SCHEMA,
    REPAIRS,
    REPAIRS_SCHEMA,
)
from muster.actors.tables.schemas.groups import GROUP_EVENTS, GROUP_EVENTS_SCHEMA, REGISTRATIONS, REGISTRATIONS_SCHEMA
from muster.actors.tables.schemas.offsets import COMMITS, COMMITS_SCHEMA, END_OFFSETS, END_OFFSETS_SCHEMA
from muster.actors.tables.schemas.rebalances import REBALANCES, REBALANCES_SCHEMA
from muster.actors.tables.schemas.samples import SAMPLES, SAMPLES_SCHEMA

__all__ = ["TABLES", "TableSchema"]

TABLES: dict[str, TableSchema] = {
    SAMPLES: SAMPLES_SCHEMA,
    COMMITS: COMMITS_SCHEMA,
    END_OFFSETS: END_OFFSETS_SCHEMA,
    REBALANCES: REBALANCES_SCHEMA,
    GROUP_EVENTS: GROUP_EVENTS_SCHEMA,
    REGISTRATIONS: REGISTRATIONS_SCHEMA,
    REPAIRS: REPAIRS_SCHEMA,
    LIFECYCLE: LIFECYCLE_SCHEMA,
    FAULTS: FAULTS_SCHEMA,
    ADMINISTRATION: ADMINISTRATION_SCHEMA,
}
"""Every table by its name."""

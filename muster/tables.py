"""Tables for analysis (docs/tables.md), read by pyarrow. :mod:`muster.spark.tables` reads them by Spark."""

from muster.actors.tables.reading import files, read
from muster.actors.tables.schemas import TABLES

__all__ = ["TABLES", "files", "read"]

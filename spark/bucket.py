"""Tables of a Muster on a bucket, as DataFrames. Executors read the bucket themselves, by Hadoop's S3A.

The jars of S3A do not come with PySpark. Spark fetches them, ``org.apache.hadoop:hadoop-aws`` in the version of its own
Hadoop, and what they need, from Maven Central into ``~/.ivy2`` (280 MB). It does not if they are in PySpark's folder
``jars`` already, and ``spark.jars.ivySettings`` in Spark's own ``spark-defaults.conf`` names another repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from muster.actors.object_storage.blocking import wait_for
from muster.actors.object_storage.location import Location, NotALocation
from muster.actors.tables.bucket.hours import FOLDER
from muster.actors.tables.bucket.reading import TableObject, objects, open_store

_HADOOP = re.compile(r"hadoop-client-api-(.+)\.jar")


@dataclass(frozen=True, slots=True)
class TablesInBucket:
    """The tables of the cluster whose bucket has that URI."""

    location: Location

    @classmethod
    def of(cls, uri: str) -> TablesInBucket:
        """Raise NotALocation for a URI that Spark cannot read: so far, it reads S3 and what speaks its protocol."""
        location = Location.parse(uri)
        if location.scheme != "s3":
            raise NotALocation(f"{uri}: Spark's jobs read s3:// only")
        return cls(location)

    def objects(self, table: str, start_ms: int | None = None, end_ms: int | None = None) -> list[TableObject]:
        """Return the objects with the table's rows of the hours that overlap [start, end). Raises ObjectStorageError
        or TableDamaged."""
        return wait_for(objects(open_store(self.location), table, start_ms, end_ms))

    def folder(self, table: str) -> str:
        """Return the table's URI for Spark."""
        return f"{self._root}/{FOLDER}{table}"

    def paths(self, found: Iterable[TableObject]) -> list[str]:
        """Return the URIs of objects for Spark."""
        return [f"{self._root}/{each.name}" for each in found]

    @property
    def _root(self) -> str:
        return str(self.location).replace("s3://", "s3a://", 1)


def bucket_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings of a session that reads S3.

    Endpoint and region are those of obstore's variables. Spark takes credentials from AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN and hands them to executors; without these, each asks its host.
    """
    found = {
        "spark.hadoop.fs.s3a.connection.establish.timeout": "5000",
        "spark.hadoop.fs.s3a.attempts.maximum": "5",
        # A file each, and no folders, since what is in a folder need not count: in tasks, if there are many.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "32",
    }
    if endpoint := environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"):
        found["spark.hadoop.fs.s3a.endpoint"] = endpoint
        found["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if region := environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"):
        found["spark.hadoop.fs.s3a.endpoint.region"] = region
    jars = _pyspark_jars()
    if not any(jars.glob("hadoop-aws-*.jar")):
        found["spark.jars.packages"] = f"org.apache.hadoop:hadoop-aws:{_hadoop_version(jars)}"
    return found


def to_ms(moment: datetime | None) -> int | None:
    """Return ms since the epoch. Raises ValueError for a time without a time zone."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone")
    return int(moment.timestamp() * 1000)


def _pyspark_jars() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "jars"


def _hadoop_version(jars: Path) -> str:
    return next(found[1] for each in jars.iterdir() if (found := _HADOOP.fullmatch(each.name)))

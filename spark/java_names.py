"""A cache of the Java class names that PySpark looks up again and again.

Py4J caches no lookup: for each ``F.col`` it asks the JVM what ``functions`` is, and the JVM searches for a class of
that name in every package that PySpark imports and in every jar of Spark, about a hundred. That was a quarter of the
time of planning a job. Attributes are not looked up: so these names are made attributes, of the one view of the JVM
that a process has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAMES = (
    "functions.col",
    "functions.lit",
    "functions.when",
    "PythonUtils.toSeq",
    "PythonUtils.toList",
    "PythonSQLUtils",
    "PythonRDD",
    "SerDeUtil",
    "SparkSession",
    "org.apache.spark.sql.expressions.Window.partitionBy",
    "org.apache.spark.storage.StorageLevel",
)


def remember(session: SparkSession) -> None:
    """Once per process is enough; repeating it is harmless."""
    for path in _NAMES:
        holder: Any = session.sparkContext._jvm
        for name in path.split("."):
            found = getattr(holder, name)
            setattr(holder, name, found)
            holder = found

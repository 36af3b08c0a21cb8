"""Names of Java classes that PySpark asks for again and again, remembered.

Py4J keeps no answer: for each ``F.col`` it asks the JVM what ``functions`` is, and the JVM looks for a class of that
name in every package that PySpark imports and in every jar of Spark, some hundred. That was a quarter of the time in
which a job's plan is built. What is an attribute is not asked for: so these are made attributes, of the one view of the
JVM that a process has.
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
    """Once per process is enough, and again does no harm."""
    for path in _NAMES:
        holder: Any = session.sparkContext._jvm
        for name in path.split("."):
            found = getattr(holder, name)
            setattr(holder, name, found)
            holder = found

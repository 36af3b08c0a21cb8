"""Spark sessions: through RayDP on a running Ray cluster, or local for tests and small tables.

Both use the Java of :mod:`actors.java`, so nothing has to be installed by hand.
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from actors.java import JavaNotFound, java_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",  # re-planning costs more than it saves on tables of this size
}
_LIGHT_JVM = "-XX:TieredStopAtLevel=1"
_SHORT_JOB = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": _LIGHT_JVM,
    "spark.executor.extraJavaOptions": _LIGHT_JVM,
    "spark.ray.raydp_app_master.extraJavaOptions": _LIGHT_JVM,
}
"""Interpret queries and compile the JVM's own code once, lightly: halves the time of a job on a small table."""
_NAMESPACE = "muster-spark"


class SparkUnavailable(RuntimeError):
    """No Spark session can be had; the message is one line that says why."""


@contextmanager
def local_session(*, cores: int = 2, shuffle_partitions: int = 1, short_job: bool = True) -> Iterator[SparkSession]:
    """Spark in this process's own JVM, stopped at the end. SparkUnavailable without Java.

    ``short_job``: see :func:`raydp_session`.
    """
    _use_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]").appName("muster")
    host = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in (_settings(shuffle_partitions, short_job) | host).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def raydp_session(
    address: str,
    *,
    token_path: Path | None = None,
    executors: int = 1,
    executor_cores: int = 1,
    executor_memory_bytes: int = 512 << 20,
    shuffle_partitions: int = 1,
    short_job: bool = True,
) -> Iterator[SparkSession]:
    """Spark whose executors are actors on the Ray cluster at ``address`` (HOST:PORT of its GCS).

    Executors, their resources and the connection to Ray are released at the end, whatever happens inside.
    ``short_job`` and one shuffle partition suit tables of up to some millions of rows; beyond, more of these pay.
    ``token_path`` names the file with the cluster's token if it uses token authentication. The cluster's nodes
    need Java in their environment (``muster up`` and ``cluster.yaml`` see to that). SparkUnavailable when there is
    no Java here, Ray does not answer, or the cluster has not enough CPUs or memory free.
    """
    _use_java()
    if token_path is not None:  # Ray reads both when it connects
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(token_path)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    import raydp

    try:
        ray.init(address=address, namespace=_NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise SparkUnavailable(f"cannot connect to Ray at {address}: {_first_line(error)}") from error
    try:
        _check_resources(
            ray.available_resources(),  # type: ignore[no-untyped-call]
            {"CPU": float(executors * executor_cores), "memory": float(executors * executor_memory_bytes)},
        )
        try:
            session = raydp.init_spark(
                f"muster-{uuid.uuid4().hex[:8]}",  # names an actor: several jobs may run at once
                num_executors=executors,
                executor_cores=executor_cores,
                executor_memory=f"{executor_memory_bytes >> 20}MB",
                fault_tolerant_mode=False,  # for handing data from Spark to Ray, which no job here does
                configs=_settings(shuffle_partitions, short_job),
            )
        except Exception as error:  # raydp raises bare Exception
            raise SparkUnavailable(f"RayDP cannot start Spark on {address}: {_first_line(error)}") from error
        session.sparkContext.setLogLevel("ERROR")
        yield session
    finally:
        with suppress(ray.exceptions.RayError):  # the cluster may be gone already
            raydp.stop_spark()
        ray.shutdown()


def _settings(shuffle_partitions: int, short_job: bool) -> dict[str, str]:
    return {
        **_SETTINGS,
        **(_SHORT_JOB if short_job else {}),
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
    }


def _use_java() -> None:
    try:
        os.environ.update(java_environment())
    except JavaNotFound as error:
        raise SparkUnavailable(_first_line(error)) from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else "python3", which may be missing or another
    os.environ.pop("SPARK_HOME", None)  # another Spark than pyspark's own would not match its Python side


def _check_resources(free: Mapping[str, float], needed: Mapping[str, float]) -> None:
    missing = [
        f"{name} {needed[name]:g} of {free.get(name, 0):g}" for name in needed if free.get(name, 0) < needed[name]
    ]
    if missing:
        raise SparkUnavailable(f"the Ray cluster has not enough free for Spark (needed of free): {', '.join(missing)}")


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

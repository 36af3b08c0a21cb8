"""Spark sessions: through RayDP on a running Ray cluster, or local for tests and small tables.

Both use the Java of :mod:`muster.actors.runtime.java`, so no manual installation is necessary.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from muster.actors.runtime.errors import first_line
from muster.actors.runtime.java import JavaNotFound, java_environment
from muster.actors.runtime.ray.imports import job_config
from muster.actors.runtime.ray.loopback import use_loopback_for
from muster.actors.runtime.ray.resources import free_by_node
from muster.spark import jvms, priority

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Jobs rely on null for undefined results, as in a division by zero; from Spark 4 on, that would be an error.
    "spark.sql.ansi.enabled": "false",
    # By the driver: a Spark job with one task per folder takes longer than listing the folders.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
}
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
_APP_MASTER_OPTIONS = "spark.ray.raydp_app_master.extraJavaOptions"
_LIGHT_JVM = "-XX:TieredStopAtLevel=1"
_HOTTER_JVM = " ".join(
    f"-XX:Tier4{name}={10 * default}"
    for name, default in (
        ("InvocationThreshold", 5_000),
        ("MinInvocationThreshold", 600),
        ("CompileThreshold", 15_000),
        ("BackEdgeThreshold", 40_000),
    )
)
"""Optimize only code that runs ten times as often as by default: loops over rows, but hardly any code that plans
queries. Over the roll-ups of 50 million samples, optimizing was up to a third of the processor time of a job; with
this, attribution takes 112 s instead of 143, consumption 53 instead of 74."""
_LOGGING = (Path(__file__).parent / "log4j2.properties").as_uri()
_QUIET = f"-Dlog4j2.configurationFile={_LOGGING}"
_WHOLE_STAGE = "spark.sql.codegen.wholeStage"
_SHORT_JOB = {
    "spark.sql.adaptive.enabled": "false",  # re-planning costs more than it saves on tables of this size
    _WHOLE_STAGE: "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    _DRIVER_OPTIONS: _LIGHT_JVM,
    _EXECUTOR_OPTIONS: _LIGHT_JVM,
    _APP_MASTER_OPTIONS: _LIGHT_JVM,
}
"""Interpret queries, and compile the JVM's own code once and lightly: halves the time of a job on a small table."""
_LONG_JOB = {
    _DRIVER_OPTIONS: _HOTTER_JVM,
    _EXECUTOR_OPTIONS: _HOTTER_JVM,
    _APP_MASTER_OPTIONS: _LIGHT_JVM,
}
_NAMESPACE = "muster-spark"
_CONNECT_S = 5
_START_TIMEOUT_S = 120
_START_POLL_S = 0.05
_ON_NODES_TIMEOUT_S = 30

_JAVA_NAMES = (
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
"""Java classes and methods."""


class SparkUnavailable(RuntimeError):
    """No Spark session can be started; the message is one line that says why."""


@contextmanager
def local_session(
    *,
    cores: int = 2,
    shuffle_partitions: int = 1,
    short_job: bool = True,
    memory_bytes: int = 1 << 30,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[SparkSession]:
    """Start Spark in a JVM of this process's own, stopped at the end.

    Raises SparkUnavailable without Java, or if Spark does not start. ``memory_bytes`` is the JVM's heap; only the first
    session of a process sets it, since later ones share its JVM. ``short_job`` and ``settings``: see
    :func:`raydp_session`.
    """
    _use_java()
    _quiet()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]").appName("muster")
    own = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{memory_bytes >> 20}m",
    }
    for name, value in (_settings(shuffle_partitions, short_job) | own | dict(settings)).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:  # too little memory for the heap, no room for spilled data
        heap = _mib(memory_bytes)
        raise SparkUnavailable(f"Spark does not start, with a heap of {heap}: {_reason(error)}") from error
    _remember_java_names(session)
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        with suppress(Py4JError, OSError):  # the JVM may have ended already
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
    low_priority: bool = True,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[SparkSession]:
    """Start Spark with executors that are actors on the Ray cluster at ``address`` (HOST:PORT of its GCS).

    Executors, their resources and the connection to Ray are always released at the end, even after an error.
    ``short_job`` and one shuffle partition suit tables of up to some millions of rows; beyond that, more are worth it.
    ``settings``: more of Spark's, such as those of :mod:`muster.spark.bucket`. ``low_priority``: executors yield to the
    actors of the cluster, see :mod:`muster.spark.priority`. ``token_path`` names the file with the cluster's token if
    it uses token authentication. The cluster's nodes need Java in their environment (``muster up`` and ``cluster.yaml``
    provide it). Raises SparkUnavailable if there is no Java or no RayDP here, Ray does not respond, or the cluster does
    not have enough free CPUs or memory.
    """
    _use_java()
    _quiet()
    _check_listens(address)
    if find_spec("raydp") is None:
        raise SparkUnavailable(
            "RayDP is not installed here, so Spark cannot run on Ray: pip install 'muster-kafka[spark]' with Python "
            "3.11, or run it here with --local"
        )
    if token_path is not None:  # Ray reads both when it connects
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(token_path)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    use_loopback_for(address)
    import ray
    import raydp

    try:
        ray.init(
            address=address,
            namespace=_NAMESPACE,
            job_config=job_config(),
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise SparkUnavailable(f"cannot connect to Ray at {address}: {first_line(error)}") from error
    with ExitStack() as ending:
        ending.callback(ray.shutdown)
        check_resources(free_by_node(), executors=executors, cores=executor_cores, memory_bytes=executor_memory_bytes)
        application = f"muster-{uuid.uuid4().hex[:8]}"  # names an actor: several jobs may run at once
        configs = _settings(shuffle_partitions, short_job) | dict(settings)
        configs["spark.log4j.config.file.name"] = _LOGGING  # RayDP's agent overrides the driver's own with it
        folder = str(jvms.temporary_folder(application))
        for name in (_EXECUTOR_OPTIONS, _APP_MASTER_OPTIONS):
            configs[name] = f"{configs.get(name, '')} {jvms.options(application)}".strip()
        nodes = _nodes()
        _on_nodes(nodes, jvms.make_folder, folder)
        ending.callback(_on_nodes, nodes, jvms.remove_folder, folder, application)
        ending.callback(_stop_raydp)
        try:
            session = raydp.init_spark(
                application,
                num_executors=executors,
                executor_cores=executor_cores,
                executor_memory=f"{executor_memory_bytes >> 20}MB",
                fault_tolerant_mode=False,  # for passing data from Spark to Ray, which no job here does
                configs=configs,
            )
        except Exception as error:  # raydp raises bare Exception
            raise SparkUnavailable(f"RayDP cannot start Spark on {address}: {first_line(error)}") from error
        session.sparkContext.setLogLevel("ERROR")
        _remember_java_names(session)
        _await_executors(session, executors)
        if low_priority:
            _on_nodes(nodes, priority.yield_marked, application)
        yield session


def _stop_raydp() -> None:
    import ray
    import raydp
    from py4j.protocol import Py4JError

    with suppress(ray.exceptions.RayError, Py4JError, OSError):  # the cluster or the JVM may have ended already
        raydp.stop_spark()


def _check_listens(address: str) -> None:
    """Raise SparkUnavailable if no server listens at HOST:PORT, which Ray itself takes minutes to report."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise SparkUnavailable(f"no Ray responds at {address}: {error}") from error


def _await_executors(session: SparkSession, count: int) -> None:
    """Raise SparkUnavailable if not all of them start, for which Spark would wait silently and forever."""
    tracker = session.sparkContext._jsc.sc().statusTracker()
    deadline = time.monotonic() + _START_TIMEOUT_S
    while (started := len(tracker.getExecutorInfos()) - 1) < count:  # the driver counts as one
        if time.monotonic() > deadline:
            raise SparkUnavailable(
                f"only {started} of {count} executors started within {_START_TIMEOUT_S} s; is Java on every node of "
                "the Ray cluster? Ray's logs there (java-worker-*) say why they did not"
            )
        time.sleep(_START_POLL_S)


def _nodes() -> list[str]:
    """List the ids of the nodes that are alive."""
    import ray

    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def _on_nodes(nodes: Sequence[str], function: Callable[..., Any], *arguments: str) -> None:
    """Call the function on each of the nodes. One that does not respond in time, or at all, is left as it is."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(function)
    with suppress(ray.exceptions.RayError):
        pending = [
            task.options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
                *arguments
            )
            for node in nodes
        ]
        if pending:
            ray.wait(pending, num_returns=len(pending), timeout=_ON_NODES_TIMEOUT_S)


def _settings(shuffle_partitions: int, short_job: bool) -> dict[str, str]:
    chosen = {
        **_SETTINGS,
        **(_SHORT_JOB if short_job else _LONG_JOB),
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
    }
    chosen[_DRIVER_OPTIONS] = f"{chosen.get(_DRIVER_OPTIONS, '')} {_QUIET}".strip()
    return chosen


def is_short(session: SparkSession) -> bool:
    """Return whether it was made for a short job."""
    return session.conf.get(_WHOLE_STAGE) == _SHORT_JOB[_WHOLE_STAGE]


def _remember_java_names(session: SparkSession) -> None:
    """Keep the names that PySpark looks up again and again. Once per process is enough; repeating it is harmless.

    Py4J caches no lookup: for each ``F.col`` it asks the JVM what ``functions`` is, and the JVM searches for a class of
    that name in every package that PySpark imports and in every jar of Spark, about a hundred. That was a quarter of
    the time of planning a job. Attributes are not looked up: so these names are made attributes, of the one view of the
    JVM that a process has.
    """
    for path in _JAVA_NAMES:
        holder: Any = session.sparkContext._jvm
        for name in path.split("."):
            found = getattr(holder, name)
            setattr(holder, name, found)
            holder = found


def make_active(session: SparkSession) -> None:
    """Set the session in this thread, too: the JVM takes settings such as the time zone from the calling thread's
    session."""
    jvm: Any = session._jvm
    jvm.SparkSession.setActiveSession(session._jsparkSession)


def _quiet() -> None:
    """Silence Spark 4, which writes each error of a query to stderr, as JSON; here, the code that catches it reports
    it.

    It also warns of a new pandas wherever that is installed, though nothing here uses it.
    """
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # Spark 3.5
        return
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _use_java() -> None:
    try:
        os.environ.update(java_environment())
    except JavaNotFound as error:
        raise SparkUnavailable(first_line(error)) from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else "python3", which may be missing or another one
    os.environ.pop("SPARK_HOME", None)  # a Spark other than pyspark's own would not match its Python side


def check_resources(
    free_by_node: Sequence[Mapping[str, float]], *, executors: int, cores: int, memory_bytes: int
) -> None:
    """Raise SparkUnavailable, with the free and the required resources, if not all executors fit.

    RayDP would then wait forever. Executors are equal, so filling node by node places as many as there is room for.
    """
    places = sum(int(min(free.get("CPU", 0) // cores, free.get("memory", 0) // memory_bytes)) for free in free_by_node)
    if places >= executors:
        return
    free = "; ".join(f"{node.get('CPU', 0):g} CPU and {_mib(node.get('memory', 0))}" for node in free_by_node)
    raise SparkUnavailable(
        f"the Ray cluster has not enough free for Spark: {executors} x {cores} CPU and {_mib(memory_bytes)} wanted, "
        f"by node there are free: {free or 'nothing'}; "
        "wait, or ask for less with --executors, --executor-cores and --executor-memory, or use --local"
    )


def _mib(size_bytes: float) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB"


def _reason(error: BaseException) -> str:
    """Return the innermost cause in the JVM's message, which comes last."""
    causes = [line for line in str(error).splitlines() if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ") if causes else first_line(error)

"""Consumer groups as actors: a Kafka-protocol service that lives on a Ray cluster.

Public, and kept from release to release:

* :mod:`muster`: ``run``, ``start`` and ``connect``, which give a ``Cluster``; ``MusterError`` and its kinds;
* :mod:`muster.data`: topics as Ray Datasets, read for a group and written exactly once;
* :mod:`muster.pool`: Ray actors that consume for a group, as many as its lag needs;
* :mod:`muster.serve`: deployments of Ray Serve that consume, and follow the lag;
* :mod:`muster.faults`: faults and plans of faults, to build or check one in Python;
* :mod:`muster.tables`: tables for analysis, read by pyarrow;
* :mod:`muster.spark.tables` and :mod:`muster.spark.streaming.stream`: the same by Spark;
* :mod:`muster.placement`: which partition of ``__consumer_offsets`` a group belongs to.

Everything else is internal and changes without notice. The pytest plugin and the client of the fault API are a
distribution of their own, ``pytest_muster``, which does not need Muster in its environment.

Names and modules are loaded on first use (PEP 562): every process of Muster imports this module.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the import of typing takes longer than all of this module
if TYPE_CHECKING:
    from typing import Any

    from muster.gateway.client.cluster import Cluster
    from muster.gateway.client.errors import (
        AlreadyRunning,
        CorruptRecords,
        Fenced,
        GroupHasMembers,
        InvalidClientConfig,
        InvalidRunState,
        LoginFailed,
        MusterError,
        NoResponse,
        NotRunning,
        NotStarted,
        OffsetOutOfRange,
        OutputTooLarge,
        RayClientUnsupported,
        RecordTooLarge,
        TopicDiffers,
        UnknownGroup,
        UnknownTopic,
    )
    from muster.gateway.client.finding import connect
    from muster.gateway.client.kafka.refusals import Refused
    from muster.gateway.client.lag import Lag, PartitionLag
    from muster.gateway.client.launcher import start
    from muster.gateway.client.process import run

__all__ = [
    "AlreadyRunning",
    "Cluster",
    "CorruptRecords",
    "Fenced",
    "GroupHasMembers",
    "InvalidClientConfig",
    "InvalidRunState",
    "Lag",
    "LoginFailed",
    "MusterError",
    "NoResponse",
    "NotRunning",
    "NotStarted",
    "OffsetOutOfRange",
    "OutputTooLarge",
    "PartitionLag",
    "RayClientUnsupported",
    "RecordTooLarge",
    "Refused",
    "TopicDiffers",
    "UnknownGroup",
    "UnknownTopic",
    "connect",
    "run",
    "start",
]

PUBLIC = (
    "muster",
    "muster.data",
    "muster.faults",
    "muster.placement",
    "muster.pool",
    "muster.serve",
    "muster.spark.streaming.stream",
    "muster.spark.tables",
    "muster.tables",
)
"""Modules that are public by their ``__all__``."""

_CLIENT = "muster.gateway.client"
_HOMES = {
    "Cluster": "cluster",
    "Lag": "lag",
    "PartitionLag": "lag",
    "Refused": "kafka.refusals",
    "connect": "finding",
    "run": "process",
    "start": "launcher",
}
"""Modules of names, below ``_CLIENT``; all others of ``__all__`` are errors."""
_MODULES = ("data", "pool", "serve")
"""Modules that ``import muster`` is enough for."""


def __getattr__(name: str) -> Any:
    """Load the name. Raises AttributeError for any that is not public."""
    from importlib import import_module

    if name in __all__:
        value = getattr(import_module(f"{_CLIENT}.{_HOMES.get(name, 'errors')}"), name)
    elif name in _MODULES:
        value = _module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _module(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:  # a package that it needs
            raise
        raise AttributeError(f"there is no module {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})

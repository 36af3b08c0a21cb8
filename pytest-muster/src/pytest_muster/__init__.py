"""A running Muster for tests: the fixture ``muster`` in pytest, the class :class:`Muster` in other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_muster.cluster import Cluster, Muster, MusterNotStarted, RunningMuster
    from pytest_muster.faults import (
        FaultClient,
        FaultError,
        FaultsDisabled,
        FaultsForbidden,
        InvalidFault,
        UnknownTarget,
        Unreachable,
    )
    from pytest_muster.topics import TopicNotCreated

__all__ = [
    "Cluster",
    "FaultClient",
    "FaultError",
    "FaultsDisabled",
    "FaultsForbidden",
    "InvalidFault",
    "Muster",
    "MusterNotStarted",
    "RunningMuster",
    "TopicNotCreated",
    "UnknownTarget",
    "Unreachable",
]


def __getattr__(name: str) -> Any:
    """Import on first use: pytest imports this package in every test run, used or not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytest_muster import cluster, faults, topics

    return next(getattr(module, name) for module in (cluster, faults, topics) if hasattr(module, name))

"""Parts that the plans ``batches`` and ``pool`` share: a Muster, its coordinators, and its account of bytes."""

from __future__ import annotations

from pathlib import Path

from muster.gateway.client.cluster import Cluster
from muster.placement.hashing import partition_for
from tests.data.topics import fetched_bytes
from tests.muster_process import Muster, eventually

_OFFSETS_PARTITIONS, _TRANSACTIONS_PARTITIONS = 4, 2
_RESOLVED_S = 90
"""Bytes may be pending for ``attribution.pending.ms``."""


def new_muster(folder: Path) -> Muster:
    """Return a Muster with several coordinators, to be started."""
    properties = {
        "offsets.topic.num.partitions": str(_OFFSETS_PARTITIONS),
        "transaction.state.log.num.partitions": str(_TRANSACTIONS_PARTITIONS),
        "metrics.samples.flush.ms": "500",
        "group.initial.rebalance.delay.ms": "300",
    }
    return Muster(folder / "storage", properties=properties)


def kafka_of(muster: Muster) -> Cluster:
    """Return its addresses."""
    return Cluster(muster.bootstrap, tuple(url.removesuffix("/metrics") for url in muster.metrics_urls))


def group_coordinator(muster: Muster, group: str) -> int | None:
    """Return the process of the group's coordinator; None if it has not been started yet."""
    return _pid(muster, f"offsets-{partition_for(group, _OFFSETS_PARTITIONS)}")


def transaction_coordinator(muster: Muster, transactional_id: str) -> int | None:
    """Return the process of the coordinator of its transactions; None if it has not been started yet."""
    return _pid(muster, f"transactions-{partition_for(transactional_id, _TRANSACTIONS_PARTITIONS)}")


def _pid(muster: Muster, name: str) -> int | None:
    actor = muster.actors().get(name)
    return None if actor is None else int(actor["pid"])


def bytes_of(muster: Muster, topic: str, group: str) -> tuple[int, int]:
    """Return the bytes of the topic that were fetched for the group, and all others, once none is pending."""
    fetched = eventually(
        lambda: fetched_bytes(muster, topic), lambda found: not found["pending"], "no byte is pending", _RESOLVED_S
    )
    of_group = sum(size for label, size in fetched.items() if label.startswith(f"{group} "))
    return of_group, fetched.total() - of_group

"""The reconciler and the client-to-group mapping in a scrape.

There is one reconciler, without an HTTP server. The gateway with the lowest id queries it over Ray while a scrape
runs, so over all gateways every series exists once (for a moment twice or not at all while a new view spreads).
``gateway`` is the gateway that sent the query.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.gateway.metrics.exposition import Exposition, labels
from muster.gateway.metrics.families import RECONCILER
from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

DEADLINE_S = 1.0

Status = Callable[[], Awaitable[Mapping[str, Any]]]
"""Returns what ``muster.actors.reconciler.reconciler.Reconciler.status`` returns."""


@dataclass(frozen=True, slots=True)
class ReconcilerStatus:
    """Response of the reconciler to one gateway."""

    gateway: int
    status: Mapping[str, Any] | None
    """None: no response, or another gateway sent the query."""

    def write(self, out: Exposition) -> None:
        """Write all families, or none if this gateway has no status."""
        status = self.status
        if status is None:
            return
        out.begin(RECONCILER)
        for outcome, name in (("done", "rounds"), ("skipped", "skipped_rounds"), ("failed", "failed_rounds")):
            out.add("muster_reconciler_rounds_total", labels(outcome=outcome), status[name])
        for name, count in status["repairs"].items():
            action, _, kind = name.partition("_")
            out.add("muster_reconciler_repairs_total", labels(action=action, kind=kind), count)
        for name, count in status["differences"].items():
            difference, _, kind = name.partition("_")
            out.add("muster_reconciler_divergences", labels(difference=difference, kind=kind), count)
        for reason in ("late", "refused"):
            out.add("muster_reconciler_repairs_missed_total", labels(reason=reason), status[f"{reason}_repairs"])
        for reason in ("not_active", "unreadable"):
            out.add("muster_reconciler_left_alone", labels(reason=reason), status["left_alone"].get(reason, 0))
        for name, value in (
            ("deferred_repairs", status["deferred_repairs"]),
            ("oldest_divergence_seconds", (status["divergent_for_ms"] or 0) / 1000),
            ("suspects", status["suspects"]),
            ("trusted_partitions", len(status["trusted_partitions"])),
            ("last_round_seconds", status["last_round_ms"] / 1000),
            ("node_reads_total", status["node_reads"]),
            ("full_reads_total", status["full_reads"]),
            ("dry_run", int(status["dry_run"])),
            ("zookeeper_connected", int(status["zookeeper_connected"])),
        ):
            out.add(f"muster_reconciler_{name}", "", value)


async def reconciler_status(status: Status | None, view: ClusterView, gateway_id: int) -> ReconcilerStatus:
    """Query the reconciler, if this gateway is the one that reports it; for DEADLINE_S at most."""
    first = min((broker.id for broker in view.brokers), default=None)
    if status is None or gateway_id != first:
        return ReconcilerStatus(gateway_id, None)
    try:
        async with asyncio.timeout(DEADLINE_S):
            return ReconcilerStatus(gateway_id, await status())
    except Exception as error:  # whatever Ray raises: the scrape goes without
        log.warning("the reconciler did not say how it is: %s", str(error) or type(error).__name__)
        return ReconcilerStatus(gateway_id, None)

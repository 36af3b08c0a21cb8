"""What a scrape says of the reconciler and the client-to-group mapping.

The reconciler has no HTTP of its own, and there is one of it; the gateway with the lowest id asks it over Ray while a
scrape runs, so that over all gateways every series is there once (for a moment twice or not at all while a new view
spreads). ``gateway`` is who asked.
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
"""Asks for what ``muster.actors.reconciler.reconciler.Reconciler.status`` gives."""


@dataclass(frozen=True, slots=True)
class ReconcilerStatus:
    """What the reconciler returned to one gateway."""

    gateway: int
    status: Mapping[str, Any] | None
    """None: nothing, or somebody else was asked."""

    def write(self, out: Exposition) -> None:
        """All families, or none if this gateway knows nothing."""
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


async def asked(status: Status | None, view: ClusterView, gateway_id: int) -> ReconcilerStatus:
    """Ask the reconciler, if this gateway is the one that tells of it; never longer than DEADLINE_S."""
    first = min((broker.id for broker in view.brokers), default=None)
    if status is None or gateway_id != first:
        return ReconcilerStatus(gateway_id, None)
    try:
        async with asyncio.timeout(DEADLINE_S):
            return ReconcilerStatus(gateway_id, await status())
    except Exception as error:  # whatever Ray raises: a scrape does without
        log.warning("the reconciler did not say how it is: %s", str(error) or type(error).__name__)
        return ReconcilerStatus(gateway_id, None)

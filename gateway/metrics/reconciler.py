"""What a scrape says of the reconciler and the client-to-group mapping.

The reconciler has no HTTP of its own, and there is one of it; the gateway with the lowest id asks it over Ray while a
scrape runs, so that over all gateways every series is there once (for a moment twice or not at all while a new view
spreads). ``gateway`` is who asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.gateway.metrics.groups import Family
from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

DEADLINE_S = 1.0

Status = Callable[[], Awaitable[Mapping[str, Any]]]
"""Asks for what ``muster.actors.reconciler.reconciler.Reconciler.status`` gives."""
Sample = tuple[Family, str, float]
"""A series: its family, its labels as they stand between braces, and the value."""


def _family(name: str, kind: str, labels: tuple[str, ...], help_text: str) -> Family:
    return Family(f"muster_reconciler_{name}", kind, labels, help_text)


ROUNDS = _family(
    "rounds",
    "counter",
    ("outcome",),
    "Rounds of the reconciler: done, skipped (ZooKeeper was away) or failed. Since its actor started, as the others.",
)
REPAIRS = _family(
    "repairs",
    "counter",
    ("action", "kind"),
    "Nodes that the reconciler created, set or removed: of a registration, KoP's flat ones (kop), and those of hosts "
    "and clients (folder).",
)
MISSED = _family(
    "repairs_missed",
    "counter",
    ("reason",),
    "Repairs that were not done: too late, since somebody else wrote the node meanwhile, or refused, since it is too "
    "large for ZooKeeper.",
)
DEFERRED = _family(
    "deferred_repairs",
    "gauge",
    (),
    "Repairs that the last round left to the next one because of reconciler.max.writes.per.second.",
)
DIVERGENCES = _family(
    "divergences",
    "gauge",
    ("difference", "kind"),
    "Nodes that the last round found missing, wrong, newer than what the coordinator says, or stale (nobody's).",
)
OLDEST = _family(
    "oldest_divergence_seconds",
    "gauge",
    (),
    "How long ago the oldest difference was first seen that is still there; 0 if there is none.",
)
SUSPECTS = _family(
    "suspects",
    "gauge",
    (),
    "Nodes that are removed or overwritten if the next round finds the same.",
)
LEFT_ALONE = _family(
    "left_alone",
    "gauge",
    ("reason",),
    "Nodes that nobody judges: their coordinator is not Active (not_active), or nothing tells whose they are "
    "(unreadable).",
)
TRUSTED = _family("trusted_partitions", "gauge", (), "Partitions of __consumer_offsets whose coordinators are Active.")
DURATION = _family("last_round_seconds", "gauge", (), "Duration of the last round, its writes included.")
READS = _family(
    "node_reads",
    "counter",
    (),
    "Nodes of the mapping that were read because they came or changed.",
)
FULL_READS = _family("full_reads", "counter", (), "Times that the whole mapping was read, as after a lost connection.")
DRY_RUN = _family("dry_run", "gauge", (), "1 where reconciler.dry.run is set: rounds write nothing.")
CONNECTED = _family("zookeeper_connected", "gauge", (), "1 while the reconciler is connected to ZooKeeper.")

FAMILIES = (
    *(ROUNDS, REPAIRS, MISSED, DEFERRED, DIVERGENCES, OLDEST, SUSPECTS, LEFT_ALONE, TRUSTED, DURATION, READS),
    *(FULL_READS, DRY_RUN, CONNECTED),
)


@dataclass(frozen=True, slots=True)
class Told:
    """What the reconciler said to one gateway."""

    gateway: int
    status: Mapping[str, Any] | None
    """None: nothing, or somebody else was asked."""

    def text(self, *, openmetrics: bool) -> bytes:
        """All families, without OpenMetrics' end mark."""
        if self.status is None:
            return b""
        lines: dict[str, list[str]] = {family.name: [] for family in FAMILIES}
        for family, labels, value in samples(self.status):
            here = ",".join(filter(None, (f'gateway="{self.gateway}"', labels)))
            lines[family.name].append(f"{family.sample}{{{here}}} {value}\n")
        return "".join(family.head(openmetrics) + "".join(lines[family.name]) for family in FAMILIES).encode()


async def asked(status: Status | None, view: ClusterView, gateway_id: int) -> Told:
    """Ask the reconciler, if this gateway is the one that tells of it; never longer than DEADLINE_S."""
    first = min((broker.id for broker in view.brokers), default=None)
    if status is None or gateway_id != first:
        return Told(gateway_id, None)
    try:
        async with asyncio.timeout(DEADLINE_S):
            return Told(gateway_id, await status())
    except Exception as error:  # whatever Ray raises: a scrape does without
        log.warning("the reconciler did not say how it is: %s", str(error) or type(error).__name__)
        return Told(gateway_id, None)


def samples(status: Mapping[str, Any]) -> Iterator[Sample]:
    """Every series, those of a family one after the other."""
    for outcome, name in (("done", "rounds"), ("skipped", "skipped_rounds"), ("failed", "failed_rounds")):
        yield ROUNDS, f'outcome="{outcome}"', status[name]
    for name, count in status["repairs"].items():
        action, _, kind = name.partition("_")
        yield REPAIRS, f'action="{action}",kind="{kind}"', count
    yield MISSED, 'reason="late"', status["late_repairs"]
    yield MISSED, 'reason="refused"', status["refused_repairs"]
    yield DEFERRED, "", status["deferred_repairs"]
    for name, count in status["differences"].items():
        difference, _, kind = name.partition("_")
        yield DIVERGENCES, f'difference="{difference}",kind="{kind}"', count
    yield OLDEST, "", (status["divergent_for_ms"] or 0) / 1000
    yield SUSPECTS, "", status["suspects"]
    for reason in ("not_active", "unreadable"):
        yield LEFT_ALONE, f'reason="{reason}"', status["left_alone"].get(reason, 0)
    yield TRUSTED, "", len(status["trusted_partitions"])
    yield DURATION, "", status["last_round_ms"] / 1000
    yield READS, "", status["node_reads"]
    yield FULL_READS, "", status["full_reads"]
    yield DRY_RUN, "", int(status["dry_run"])
    yield CONNECTED, "", int(status["zookeeper_connected"])

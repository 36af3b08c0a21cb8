"""The reconciler in /metrics: one gateway queries it, and a silent one does not break a scrape."""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from muster.actors.reconciler.reconciler import Reconciler
from muster.gateway.metrics.exposition import expose
from muster.gateway.metrics.families import RECONCILER
from muster.gateway.metrics.reconciler import reconciler_status
from muster.placement.view import Broker, ClusterView


def view(*ids: int) -> ClusterView:
    brokers = tuple(Broker(id=each, host="h", port=each, node_id="n") for each in ids)
    return ClusterView(cluster_id="c", controller_epoch=1, version=1, brokers=brokers, topics={}, offsets={}, logs={})


async def fresh_status(hosts: str) -> dict[str, Any]:
    async def nothing() -> dict[int, Any]:
        return {}

    reconciler = Reconciler(hosts, 1000, nothing)
    try:
        await reconciler.round()
        return reconciler.status()
    finally:
        await asyncio.to_thread(reconciler.close)


def test_every_family_is_reported_by_the_first_gateway_alone(zk_hosts: str) -> None:
    found = asyncio.run(fresh_status(zk_hosts)) | {
        "repairs": {"create_registration": 3},
        "differences": {"missing_kop": 2},
        "divergent_for_ms": 1500,
    }

    async def status() -> dict[str, Any]:
        return found

    reported = asyncio.run(reconciler_status(status, view(2, 3), 2))
    families = {one.name: one for one in text_string_to_metric_families(expose(2, [reported.write]).decode())}
    assert {family.name.removesuffix("_total") for family in RECONCILER} == families.keys()
    samples = {(one.name, *sorted(one.labels.items())): one.value for each in families.values() for one in each.samples}
    gateway = ("gateway", "2")
    repairs = ("muster_reconciler_repairs_total", ("action", "create"), gateway, ("kind", "registration"))
    assert samples[repairs] == 3
    assert samples["muster_reconciler_divergences", ("difference", "missing"), gateway, ("kind", "kop")] == 2
    assert samples["muster_reconciler_oldest_divergence_seconds", gateway] == 1.5
    assert samples["muster_reconciler_rounds_total", gateway, ("outcome", "skipped")] == 1
    assert expose(3, [asyncio.run(reconciler_status(status, view(2, 3), 3)).write]) == b""


def test_a_reconciler_that_is_away_costs_no_scrape() -> None:
    async def gone() -> dict[str, Any]:
        raise ValueError("no actor of that name")

    assert expose(1, [asyncio.run(reconciler_status(gone, view(1), 1)).write]) == b""

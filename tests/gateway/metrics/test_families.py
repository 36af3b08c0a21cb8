"""The names of all families of /metrics, compared with a scrape. families.txt changes only on purpose."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from muster.actors.audit.report import Cause, Report, Row
from muster.actors.offsets.metrics import REBALANCE_BUCKETS_MS, GroupRow
from muster.actors.offsets.metrics import Snapshot as Offsets
from muster.gateway.attribution.account import Snapshot
from muster.gateway.attribution.series import Total
from muster.gateway.attribution.verdict import Evidence, Reason
from muster.gateway.lag.groups import GroupLag, PartitionLag
from muster.gateway.lag.metrics import LagScrape
from muster.gateway.metrics.audit import write_audit
from muster.gateway.metrics.exposition import Exposition, expose, labels
from muster.gateway.metrics.families import FAMILIES, GATEWAY, KOP
from muster.gateway.metrics.gateway import GatewayMetrics
from muster.gateway.metrics.groups import Scrape
from muster.gateway.metrics.reconciler import ReconcilerStatus
from muster.gateway.metrics.transactions import TransactionScrape
from muster.gateway.quotas.clients import ClientQuotas
from muster.gateway.quotas.limits import ABSENT
from muster.gateway.quotas.rate import Window
from muster.gateway.telemetry.otlp import Point
from muster.gateway.telemetry.series import ClientSeries
from muster.placement.view import Broker, ClusterView

PINNED = (Path(__file__).parent / "families.txt").read_text().splitlines()
"""A line each: name, type, labels except ``gateway``."""
PLACE = ("t", 0)
SPECIAL = {"histogram": {"le"}, "summary": set[str]()}


class Books:
    """Values in every part."""

    def snapshot(self) -> Snapshot:
        total: Any = Total(messages=10, bytes=1_000, entries=1, since_ms=1_700_000_000_000)
        return Snapshot(
            sent={PLACE: total},
            groups={("g", Evidence.UNIQUE_CANDIDATE, *PLACE): total},
            reasons={(Reason.NO_GROUP, *PLACE): total},
            overflow={PLACE: total},
            removed={PLACE: total},
            pending={PLACE: total},
            principals={("User:ann", "t"): total},
            folded=1,
        )

    def registrations(self) -> int:
        return 1

    def ambiguous_clients(self) -> int:
        return 1


def gateway_metrics() -> GatewayMetrics:
    metrics = GatewayMetrics(1, Books(), kop_cluster="c")
    metrics.request("Fetch", 17, "NONE", 0.01)
    metrics.produced("t", 1, 100)
    metrics.connection_closed_for("idle")
    metrics.forward_error("log-0")
    metrics.group_scrape_error("offsets-0")
    metrics.fault_injected("pause", actor="log-0")
    metrics.client_pushed("NONE")
    metrics.authorized(True)
    metrics.certificates = lambda: [("SSL", 90.0)]
    metrics.reachable = lambda: {("log", 0): True}
    metrics.controller_responds = lambda: True
    metrics.storage = Path("/")
    metrics.quotas = ClientQuotas(Window(11, 1_000), Window(11, 1_000))
    metrics.quotas.throttles.add("group_byte_rate", ("g", ABSENT), 5)
    metrics.logins.succeeded("SASL", knows_lifetimes=False)
    for again in (False, True):
        metrics.logins.failed("SASL", again=again)
    metrics.logins.again("SASL", 0.1)
    metrics.logins.expired("SASL")
    metrics.client_series = ClientSeries(2)
    points = (Point(name, "", 1, is_counter, False) for name, is_counter in (("a", False), ("b", True)))
    metrics.client_series.add(UUID(int=1), "g", "c", points)
    return metrics


def of_groups() -> Scrape:
    row = ["g", "Stable", *[1] * (len(GroupRow._fields) - 4), {"member joined": 1}, {"session expired": 1}]
    buckets = (1,) * (len(REBALANCE_BUCKETS_MS) + 1)
    offsets = Offsets(
        partition=0, epoch=1, load_ms=1, rebalance_buckets=buckets, rebalances_ms=1, chunks=(json.dumps([row]),)
    )
    return Scrape(1, (offsets,), active=1, loading=0, corrupt_segments={0: 1})


def of_transactions() -> TransactionScrape:
    snapshot = {
        "states": {"Ongoing": 1},
        "oldest_ms": 1,
        "load_ms": 1,
        "completed": {"commit": 1},
        "fenced": {"transaction timed out": 1},
        "failed_markers": 1,
    }
    return TransactionScrape({0: snapshot})


def audited() -> Any:
    broker = Broker(id=1, host="h", port=1, node_id="n")
    row = Row("g", *PLACE, implied_bytes=3, attributed_bytes=2, drift_bytes={Cause.LOST: 1}, removed_offsets=1)
    return SimpleNamespace(
        id=1,
        audit_report=Report(rounds=1, at_ms=1, rows=(row,)),
        config=SimpleNamespace(metrics_max_group_series=1),
        partition_of=lambda group: 0,
        view=ClusterView(
            cluster_id="c", controller_epoch=1, version=1, brokers=(broker,), topics={}, offsets={0: None}, logs={}
        ),
    )


RECONCILER = {
    **dict.fromkeys(("rounds", "skipped_rounds", "failed_rounds", "late_repairs", "refused_repairs"), 1),
    **dict.fromkeys(("deferred_repairs", "divergent_for_ms", "suspects", "last_round_ms", "node_reads"), 1),
    **dict.fromkeys(("full_reads", "dry_run", "zookeeper_connected"), 1),
    "repairs": {"create_kop": 1},
    "differences": {"missing_kop": 1},
    "left_alone": {},
    "trusted_partitions": [0],
}


def scrape(*, openmetrics: bool) -> str:
    """With a series of every family."""
    sections = (
        of_groups().write,
        LagScrape([GroupLag("g", "Stable", "classic", "consumer", 1, [PartitionLag(*PLACE, 5, 1.5)])], 1).write,
        of_transactions().write,
        partial(write_audit, gateway=audited()),
        ReconcilerStatus(1, RECONCILER).write,
    )
    return expose(1, (*gateway_metrics().sections(), *sections), openmetrics=openmetrics).decode()


def test_no_family_changes_silently() -> None:
    names = {family: ("cluster", *family.labels) if family in KOP else family.labels for family in FAMILIES}
    assert sorted(" ".join((family.name, family.kind, *names[family])) for family in FAMILIES) == PINNED


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_scrape_has_every_family_as_the_table_has_it(openmetrics: bool) -> None:
    parse = parse_openmetrics if openmetrics else parse_text
    families = {family.name: family for family in parse(scrape(openmetrics=openmetrics))}
    assert families.keys() == {family.name.removesuffix("_total") for family in FAMILIES}
    for family in FAMILIES:
        found = families[family.name.removesuffix("_total")]
        assert (found.type, found.documentation) == (family.kind, family.help)
        expected = {"cluster" if family in KOP else "gateway", *family.labels}
        assert found.samples
        for sample in found.samples:
            assert sample.name.startswith(family.name) or sample.name == f"{found.name}_created"
            assert sample.labels.keys() - SPECIAL.get(family.kind, set()) == expected


@pytest.mark.parametrize("openmetrics", [False, True])
def test_created_series_and_the_end_mark_are_of_openmetrics(openmetrics: bool) -> None:
    text = scrape(openmetrics=openmetrics)
    series = (
        'muster_group_fetch_bytes_created{gateway="1",group="g",topic="t",partition="0",evidence="unique_candidate"}'
    )
    assert (f"\n{series} 1700000000.0\n" in text) == openmetrics
    assert text.endswith("# EOF\n") == openmetrics


def test_a_family_that_is_in_no_section_is_an_error() -> None:
    out = Exposition(1, openmetrics=False)
    out.begin(GATEWAY)
    with pytest.raises(KeyError):
        out.add("muster_group_members", labels(group="g"), 1)

"""A scrape over HTTP, read back with Prometheus' own parsers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from muster.actors.tables.rollup import Sample
from muster.gateway.attribution.account import Account
from muster.gateway.attribution.connection import ConnectionState
from muster.gateway.http.server import PortTaken, make_app, start_http
from muster.gateway.metrics.exposition import expose
from muster.gateway.metrics.gateway import GatewayMetrics
from tests.attribution.bench import CLIENT, HOST, NOW_MS, Coordinator, Sink

HOSTILE = ['a"b', "a\\b", "a\\nb", "a\nb", "a\r\nb", 'x",group="y', "} 1\nfake 2", "", "ünï\u2028", "\x00\t", "\\", '"']


@pytest.fixture
def account() -> Account[Sample]:
    return Account(Sink(), Sample)


@pytest.fixture
def metrics(account: Account[Sample]) -> GatewayMetrics:
    return GatewayMetrics(3, account)


def send(account: Account[Sample], partition: int, topic: str = "t", client_id: str | None = CLIENT) -> None:
    account.sent(ConnectionState(), HOST, client_id, [(topic, partition, 0, 0, 9, 10, 1_000, 1, 0, 0)], NOW_MS)


def scrape(metrics: GatewayMetrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Series -> value; the label ``gateway`` is checked and omitted."""
    series = {}
    for family in parse_text(expose(3, metrics.sections()).decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("gateway") == "3"
            series[sample.name, frozenset(labels.items())] = sample.value
    return series


def value(metrics: GatewayMetrics, name: str, **labels: str) -> float:
    return scrape(metrics)[name, frozenset(labels.items())]


def test_what_was_sent_is_what_has_a_group_a_reason_or_waits(metrics: GatewayMetrics, account: Account[Sample]) -> None:
    send(account, 9)
    account.settle(NOW_MS + 60_000)
    account.updates([Coordinator().register("g", "m", 0)], NOW_MS)
    send(account, 0)
    send(account, 1)
    series = scrape(metrics)
    place = {"topic": "t", "evidence": "unique_candidate", "group": "g"}
    assert series["muster_group_fetch_bytes_total", frozenset({**place, "partition": "0"}.items())] == 1_000
    assert value(metrics, "muster_pending_fetch_messages", topic="t", partition="1") == 10
    assert value(metrics, "muster_unattributed_fetch_bytes_total", topic="t", partition="9", reason="no_group") == 1_000
    for unit in ("bytes", "messages"):
        parts = (f"muster_group_fetch_{unit}_total", f"muster_unattributed_fetch_{unit}_total")
        for partition in ("0", "1", "9"):
            here = {name: 0.0 for name, labels in series}
            for (name, labels), amount in series.items():
                if ("partition", partition) in labels:
                    here[name] += amount
            assert here[f"muster_fetch_{unit}_total"] > 0
            assert (
                here[f"muster_fetch_{unit}_total"]
                == sum(here[name] for name in parts) + here[f"muster_pending_fetch_{unit}"]
            )


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_group_and_topic_parse_back_as_they_were(
    metrics: GatewayMetrics, account: Account[Sample], name: str
) -> None:
    """F24: KoP does not escape; one such group makes the whole scrape unreadable."""
    account.updates([Coordinator().register(name, "m", 0, topic=name)], NOW_MS)
    send(account, 0, topic=name)
    labels = {"group": name, "topic": name, "partition": "0", "evidence": "unique_candidate"}
    assert value(metrics, "muster_group_fetch_messages_total", **labels) == 10


def test_a_name_that_cannot_be_encoded_does_not_cost_the_scrape(
    metrics: GatewayMetrics, account: Account[Sample]
) -> None:
    account.updates([Coordinator().register("g\ud800", "m", 0)], NOW_MS)
    send(account, 0)
    labels = {"group": "g\\ud800", "topic": "t", "partition": "0", "evidence": "unique_candidate"}
    assert value(metrics, "muster_group_fetch_bytes_total", **labels) == 1_000


def test_requests_and_their_latency(metrics: GatewayMetrics) -> None:
    for duration_s in (0.0005, 0.0007, 400.0):
        metrics.request("JoinGroup", 9, "NONE", duration_s)
    metrics.request("JoinGroup", 9, "UNKNOWN_MEMBER_ID", 0.002)
    assert value(metrics, "muster_requests_total", api="JoinGroup", version="9", error="NONE") == 3
    bucket = "muster_request_duration_seconds_bucket"
    bounds = {
        bound: value(metrics, bucket, api="JoinGroup", le=bound) for bound in ("0.0005", "0.001", "300.0", "+Inf")
    }
    assert bounds == {"0.0005": 1, "0.001": 2, "300.0": 3, "+Inf": 4}
    assert value(metrics, "muster_request_duration_seconds_count", api="JoinGroup") == 4
    assert value(metrics, "muster_request_duration_seconds_sum", api="JoinGroup") == pytest.approx(400.0032)


def test_traffic_and_the_cluster(metrics: GatewayMetrics, account: Account[Sample]) -> None:
    metrics.connection_opened()
    metrics.connection_opened()
    metrics.connection_closed()
    metrics.received_bytes += 10
    metrics.sent_bytes += 20
    metrics.produced("t", 3, 300)
    metrics.forward_error("offsets-7")
    metrics.view((2, 17))
    account.updates([Coordinator().register("g", "m", 0)], NOW_MS)
    assert value(metrics, "muster_connections") == 1
    assert value(metrics, "muster_connections_opened_total") == 2
    assert value(metrics, "muster_received_bytes_total") == 10
    assert value(metrics, "muster_sent_bytes_total") == 20
    assert value(metrics, "muster_produce_messages_total", topic="t") == 3
    assert value(metrics, "muster_produce_bytes_total", topic="t") == 300
    assert value(metrics, "muster_forward_errors_total", actor="offsets-7") == 1
    assert (value(metrics, "muster_controller_epoch"), value(metrics, "muster_view_version")) == (2, 17)
    assert value(metrics, "muster_registrations") == 1


Get = Callable[..., Awaitable[tuple[int, str, str]]]


def over_http(metrics: GatewayMetrics, visit: Callable[[Get], Awaitable[None]], *, serving: bool = True) -> None:
    async def main() -> None:
        runner, port = await start_http(make_app(metrics, lambda: serving), "127.0.0.1", 0)
        try:
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

                async def get(path: str, **headers: Any) -> tuple[int, str, str]:
                    async with session.get(path, headers=headers) as response:
                        return response.status, response.headers["Content-Type"], await response.text()

                await visit(get)
        finally:
            await runner.cleanup()

    asyncio.run(main())


def test_each_format_over_http_reads_back_with_its_parser(metrics: GatewayMetrics, account: Account[Sample]) -> None:
    account.updates([Coordinator().register('g"\n', "m", 0)], NOW_MS)
    send(account, 0)
    metrics.request("Fetch", 17, "NONE", 0.01)

    async def visit(get: Get) -> None:
        status, content_type, text = await get("/metrics")
        assert (status, content_type.split(";")[0]) == (200, "text/plain")
        plain = {sample.name for family in parse_text(text) for sample in family.samples}
        status, content_type, text = await get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert (status, content_type.split(";")[0]) == (200, "application/openmetrics-text")
        families = list(parse_openmetrics(text))
        names = {sample.name for family in families for sample in family.samples}
        created = {name for name in names if name.endswith("_created")}
        assert names - created == plain
        assert created == {
            f"muster_{what}_fetch_{unit}_created" for what in ("group", "principal") for unit in ("bytes", "messages")
        }
        assert all(family.documentation for family in families)

    over_http(metrics, visit)


@pytest.mark.parametrize(("serving", "status"), [(True, 200), (False, 503)])
def test_healthz(metrics: GatewayMetrics, serving: bool, status: int) -> None:
    async def visit(get: Get) -> None:
        assert (await get("/healthz"))[0] == status

    over_http(metrics, visit, serving=serving)


def test_a_taken_port_is_named(metrics: GatewayMetrics) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"127.0.0.1:{port}: the port is in use"):
            asyncio.run(start_http(make_app(metrics, lambda: True), "127.0.0.1", port))
